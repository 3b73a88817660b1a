/* Where something stands in a JSON text: jansson keeps no positions, and who wrote the file wants
 * the line. */
#ifndef BASE_JSON_LINE_H
#define BASE_JSON_LINE_H
#include <stddef.h>

/* The line, from 1, of what path (n_path bytes) names in the JSON document text: members behind
 * dots, items as [3], from 0, which may be followed by a remark in parentheses:
 * model.graph.nodes[3](attn).heads.  Where the path leads nowhere, the line of the last thing on it
 * that is there; 0 when not even the first is.  Never reads beyond n, whatever the text is. */
size_t json_line_of(const char *text, size_t n, const char *path, size_t n_path);

#endif
