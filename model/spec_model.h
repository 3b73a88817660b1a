/* The section "model" of a spec: the members of each builder, and no others. */
#ifndef MODEL_SPEC_MODEL_H
#define MODEL_SPEC_MODEL_H
#include "base/json.h"
#include "model/spec.h"

/* Reads the section into s->model (and s->user), noting every mistake. */
void spec_model_read(struct json_in *in, struct spec *s);

#endif
