#include "round/rule.h"

const struct rule_row rule_mean_R = {.name = "mean_R", .step = rule_descend};
