#include "compress/select.h"

const struct select_row select_all = {.name = "all"};
