#include "coordinator/assets.h"
#include <string.h>
#include "base/embed.h"

EMBED(assets_index, "coordinator/web/index.html");
EMBED(assets_app, "coordinator/web/app.js");
EMBED(assets_style, "coordinator/web/style.css");
EMBED(assets_icon, "coordinator/web/icon.svg");
EMBED(assets_chart, "/usr/share/javascript/chart.js/chart.min.js");

#define HTML "text/html; charset=utf-8"
#define SCRIPT "text/javascript; charset=utf-8"

static const struct assets_file files[] = {
	{"/", HTML, assets_index, assets_index_end},
	{"/app.js", SCRIPT, assets_app, assets_app_end},
	{"/style.css", "text/css; charset=utf-8", assets_style, assets_style_end},
	{"/icon.svg", "image/svg+xml", assets_icon, assets_icon_end},
	{"/chart.js", SCRIPT, assets_chart, assets_chart_end},
};

const struct assets_file *assets_find(const char *path)
{
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		if (!strcmp(files[i].path, path))
			return &files[i];
	return NULL;
}
