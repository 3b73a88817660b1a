#include "base/option.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/option_value.h"
#include "base/text.h"
#include <assert.h>
#include <ctype.h>
#include <ini.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST ((size_t)1 << 18)
#define NAME_MOST 64
#define ROWS_MOST 256
#define CONFIG "config"

static const char config_help[] = "read options from FILE (name = value)";

struct table {
	const struct option_row *rows;
	size_t n;
	const char *config;
	bool apply; // the first walk finds words and --config, the second sets values
	struct why *why;
};

// Texts from config files live as long as the process; the list keeps them in sight of leak checks.
static struct kept {
	struct kept *next;
	char text[];
} * all_kept;

static const char *keep(const char *text)
{
	size_t bytes = strlen(text) + 1;
	struct kept *k = alloc_must(sizeof *k + bytes);
	memcpy(k->text, text, bytes);
	k->next = all_kept;
	all_kept = k;
	return k->text;
}

static const struct option_row *find(const struct table *t, const char *name, size_t len)
{
	for (size_t i = 0; i < t->n; i++)
		if (strlen(t->rows[i].name) == len && memcmp(t->rows[i].name, name, len) == 0)
			return &t->rows[i];
	return NULL;
}

/* where is "" or "FILE line 3: "; dashes stand before the name where it stood. */
static enum err unknown(
	const struct table *t, const char *where, const char *dashes, const char *name)
{
	const char *names[ROWS_MOST + 1];
	for (size_t i = 0; i < t->n; i++)
		names[i] = t->rows[i].name;
	// A config file cannot name another one.
	names[t->n] = CONFIG;
	const char *near = text_nearest(name, names, t->n + (*dashes != '\0'));
	if (near)
		return err_why(t->why, ERR_usage, "%sunknown option %s%.60s; did you mean %s%s?",
			where, dashes, name, dashes, near);
	return err_why(t->why, ERR_usage, "%sunknown option %s%.60s; --help lists the known ones",
		where, dashes, name);
}

static enum err set_defaults(const struct table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct option_row *row = &t->rows[i];
		if (!row->fallback)
			continue;
		char where[NAME_MOST + 40];
		snprintf(where, sizeof where, "built-in default of %s", row->name);
		enum err err = option_value_set(row, row->fallback, where, t->why);
		if (err)
			return err;
	}
	return ERR_OK;
}

/* SHOAL_MIN_PEERS for min-peers. */
static void env_name(const char *name, char out[static NAME_MOST + 8])
{
	size_t n = (size_t)snprintf(out, NAME_MOST + 8, "SHOAL_%s", name);
	for (size_t i = 0; i < n; i++)
		out[i] = out[i] == '-' ? '_' : (char)toupper((unsigned char)out[i]);
}

/* An empty variable counts as unset: that is how scripts and container files switch one off. */
static const char *env_get(const char *name, char variable[static NAME_MOST + 8])
{
	env_name(name, variable);
	const char *text = getenv(variable);
	return text && *text ? text : NULL;
}

/* An address with user and password before the @. */
static bool is_secret(const struct option_row *row, const char *text)
{
	return row->kind == OPTION_url && text && strchr(text, '@');
}

static enum err set_from_env(const struct table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		char where[NAME_MOST + 8];
		const char *text = env_get(t->rows[i].name, where);
		if (is_secret(&t->rows[i], text)) {
			char *theirs = getenv(where);
			text = keep(theirs);
			explicit_bzero(theirs, strlen(theirs));
			unsetenv(where);
		}
		enum err err = text ? option_value_set(&t->rows[i], text, where, t->why) : ERR_OK;
		if (err)
			return err;
	}
	return ERR_OK;
}

/* ---- the config file: inih asks reader for lines and gives handler names with values */

struct config {
	const struct table *table;
	const char *path, *at, *end;
	int line;
	int seen[ROWS_MOST]; // on which line each row was set, 0 for none
	enum err err;
};

/* As fgets, but knows the line's number, refuses what inih would silently cut, and drops leading
 * blanks, which inih takes for the continuation of the value above. */
static char *reader(char *to, int room, void *stream)
{
	struct config *c = stream;
	if (c->err || c->at == c->end)
		return NULL;
	c->line++;
	while (c->at < c->end && *c->at != '\n' && isspace((unsigned char)*c->at))
		c->at++;
	const char *newline = memchr(c->at, '\n', (size_t)(c->end - c->at));
	size_t n = (size_t)((newline ? newline + 1 : c->end) - c->at);
	if (n >= (size_t)room)
		c->err = err_why(c->table->why, ERR_toobig,
			"%s line %d is longer than %d bytes; shorten it", c->path, c->line,
			room - 2);
	else if (memchr(c->at, '\0', n))
		c->err = err_why(c->table->why, ERR_syntax,
			"%s line %d holds a NUL byte; is it a text file?", c->path, c->line);
	if (c->err)
		return NULL;
	memcpy(to, c->at, n);
	to[n] = '\0';
	c->at += n;
	return to;
}

static enum err set_from_line(
	struct config *c, const char *section, const char *name, const char *value)
{
	const struct table *t = c->table;
	char where[300];
	if (*section)
		return err_why(t->why, ERR_usage,
			"%s line %d: sections such as [%.40s] are not used; remove it", c->path,
			c->line, section);
	const struct option_row *row = find(t, name, strlen(name));
	if (!row) {
		snprintf(where, sizeof where, "%.200s line %d: ", c->path, c->line);
		return unknown(t, where, "", name);
	}
	int *seen = &c->seen[row - t->rows];
	if (*seen)
		return err_why(t->why, ERR_duplicate, "%s line %d: %s was already set on line %d",
			c->path, c->line, name, *seen);
	*seen = c->line;
	snprintf(where, sizeof where, "%.200s line %d: %s", c->path, c->line, row->name);
	bool lives = row->kind == OPTION_text || row->kind == OPTION_url;
	return option_value_set(row, lives ? keep(value) : value, where, t->why);
}

static int handler(void *user, const char *section, const char *name, const char *value)
{
	struct config *c = user;
	if (!c->err)
		c->err = set_from_line(c, section, name, value);
	return c->err == ERR_OK;
}

static enum err set_from_file(const struct table *t)
{
	char variable[NAME_MOST + 8];
	const char *path = t->config ? t->config : env_get(CONFIG, variable);
	if (!path)
		return ERR_OK;
	uint8_t *bytes;
	size_t len;
	enum err err = file_read(path, FILE_MOST, &bytes, &len, t->why);
	if (err)
		return err;
	struct config c = {
		.table = t, .path = path, .at = (char *)bytes, .end = (char *)bytes + len};
	int line = ini_parse_stream(reader, &c, handler, &c);
	free(bytes);
	if (!c.err && line != 0)
		c.err = err_why(t->why, ERR_syntax, "%s line %d is not name = value", path, line);
	return c.err;
}

/* ---- the command line */

static enum err take_word(const struct table *t, struct option_args *a, const char *word)
{
	if (a->n_words == a->max_words)
		return err_why(t->why, ERR_usage,
			"unexpected \"%.80s\"; at most %zu word%s taken here", word, a->max_words,
			a->max_words == 1 ? " is" : "s are");
	a->words[a->n_words++] = word;
	return ERR_OK;
}

/* Everybody on the machine can read the arguments of everybody's programs. */
static enum err refuse_secret(const struct table *t, const struct option_row *row, char *value)
{
	char variable[NAME_MOST + 8];
	env_name(row->name, variable);
	explicit_bzero(value, strlen(value));
	return err_why(t->why, ERR_usage,
		"--%s: a password does not belong on a command line, where others read it: put the "
		"address with it into the variable %s or into the file of --config",
		row->name, variable);
}

/* argv[*i] starts with "--"; its value may be in the next one, then *i moves on. */
static enum err take_option(struct table *t, struct option_args *a, int *i)
{
	const char *name = a->argv[*i] + 2;
	size_t len = strcspn(name, "=");
	const char *value = name[len] == '=' ? name + len + 1 : NULL;
	const struct option_row *row = find(t, name, len);
	bool config = len == strlen(CONFIG) && memcmp(name, CONFIG, len) == 0;
	if (!row && !config) {
		char copy[NAME_MOST];
		snprintf(copy, sizeof copy, "%.*s", (int)(len < NAME_MOST ? len : NAME_MOST), name);
		return unknown(t, "", "--", copy);
	}
	if (!value && row && row->kind == OPTION_flag)
		value = "yes";
	else if (!value && *i + 1 < a->argc && strncmp(a->argv[*i + 1], "--", 2) != 0)
		value = a->argv[++*i];
	if (!value)
		return err_why(t->why, ERR_usage, "--%.*s needs a value", (int)len, name);
	if (row && is_secret(row, value))
		return refuse_secret(t, row, (char *)(uintptr_t)value);
	if (config)
		t->config = value;
	if (!row || !t->apply)
		return ERR_OK;
	char where[NAME_MOST + 8];
	snprintf(where, sizeof where, "--%s", row->name);
	return option_value_set(row, value, where, t->why);
}

static enum err walk(struct table *t, struct option_args *a)
{
	enum err err = ERR_OK;
	bool options = true;
	a->n_words = 0;
	for (int i = 1; !err && i < a->argc; i++) {
		const char *arg = a->argv[i];
		if (options && strcmp(arg, "--") == 0)
			options = false;
		else if (options && strncmp(arg, "--", 2) == 0)
			err = take_option(t, a, &i);
		else if (options && arg[0] == '-' && arg[1] != '\0')
			err = err_why(t->why, ERR_usage,
				"unknown option %.60s; options start with two dashes", arg);
		else
			err = take_word(t, a, arg);
	}
	return err;
}

enum err option_read(
	const struct option_row *rows, size_t n_rows, struct option_args *args, struct why *why)
{
	assert(n_rows <= ROWS_MOST);
	struct table t = {.rows = rows, .n = n_rows, .why = why};
	enum err err = walk(&t, args);
	if (!err)
		err = set_defaults(&t);
	if (!err)
		err = set_from_file(&t);
	if (!err)
		err = set_from_env(&t);
	t.apply = true;
	return err ? err : walk(&t, args);
}

void option_help(const struct option_row *rows, size_t n_rows, FILE *to)
{
	char left[NAME_MOST + 16];
	for (size_t i = 0; i < n_rows; i++) {
		const char *word = option_value_word(rows[i].kind);
		snprintf(left, sizeof left, "--%s%s%s", rows[i].name, *word ? " " : "", word);
		fprintf(to, "  %-26s %s", left, rows[i].help);
		if (rows[i].fallback && !strcmp(rows[i].fallback, "\n"))
			fputs(" (default: a line's end)", to);
		else if (rows[i].fallback && *rows[i].fallback)
			fprintf(to, " (default %s)", rows[i].fallback);
		fputc('\n', to);
	}
	fprintf(to, "  %-26s %s\n", "--" CONFIG " FILE", config_help);
}

/* Whether a config file can carry the text as it is: one line, no blanks at the ends that inih
 * would strip, nothing that it would take for a comment, and not longer than its line. */
static bool can_print(const char *name, const char *text)
{
	size_t n = strlen(text);
	if (n == 0)
		return true;
	if (strlen(name) + n + 8 > 196 || strchr(text, '\n') || strchr(text, '\r'))
		return false;
	for (size_t i = 0; i < n; i++)
		if (text[i] == ';' && (i == 0 || isspace((unsigned char)text[i - 1])))
			return false;
	return !isspace((unsigned char)text[0]) && !isspace((unsigned char)text[n - 1]);
}

void option_print(const struct option_row *rows, size_t n_rows, FILE *to)
{
	for (size_t i = 0; i < n_rows; i++) {
		const struct option_row *row = &rows[i];
		char value[400];
		option_value_text(row, value, sizeof value);
		const bool text = row->kind == OPTION_text || row->kind == OPTION_url;
		if (text && !*(const char **)row->into)
			fprintf(to, "# %s is not set\n", row->name);
		else if (is_secret(row, value))
			fprintf(to, "# %s is set with a password, and not shown\n", row->name);
		else if (!can_print(row->name, value))
			fprintf(to, "# %s cannot stand in a config file\n", row->name);
		else
			fprintf(to, "%s = %s\n", row->name, value);
	}
}
