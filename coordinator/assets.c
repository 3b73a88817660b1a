#include "coordinator/assets.h"
#include <string.h>
#include "base/embed.h"

#define HTML "text/html; charset=utf-8"
#define SCRIPT "text/javascript; charset=utf-8"
#define STYLE "text/css; charset=utf-8"
#define SVG "image/svg+xml"

/* A page of this build only goes with the scripts of this build: asked for anew each time. */
#define OURS "no-cache"
#define LIBRARY "public, max-age=86400"

/* X(name, asked for as, type, cache, file) */
#define ASSETS_LIST(X) \
	X(index, "/", HTML, OURS, "coordinator/web/index.html") \
	X(app, "/app.js", SCRIPT, OURS, "coordinator/web/app.js") \
	X(views, "/views.js", SCRIPT, OURS, "coordinator/web/views.js") \
	X(loss, "/loss.js", SCRIPT, OURS, "coordinator/web/loss.js") \
	X(topology, "/topology.js", SCRIPT, OURS, "coordinator/web/topology.js") \
	X(words, "/words.js", SCRIPT, OURS, "coordinator/web/words.js") \
	X(style, "/style.css", STYLE, OURS, "coordinator/web/style.css") \
	X(icon, "/icon.svg", SVG, OURS, "coordinator/web/icon.svg") \
	X(chart, "/chart.js", SCRIPT, LIBRARY, "/usr/share/javascript/chart.js/chart.min.js")

#define X(name, path, type, cache, file) EMBED(assets_##name, file);
ASSETS_LIST(X)
#undef X

static const struct asset files[] = {
#define X(name, path, type, cache, file) {path, type, cache, assets_##name, assets_##name##_end},
	ASSETS_LIST(X)
#undef X
};

const struct asset *assets_find(const char *path)
{
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		if (!strcmp(files[i].path, path))
			return &files[i];
	return NULL;
}
