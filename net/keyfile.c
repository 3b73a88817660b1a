#include "net/keyfile.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"

#define MAGIC "SHOALKEY"
#define VERSION 1
#define HEAD (8 + 2 + 2 + 4)
#define SUM 8 /* first bytes of SHA-256 over all before */

static const char *kind_text(enum keyfile_kind kind)
{
	switch (kind) {
#define X(number, name, text) \
	case KEYFILE_##name: return text;
		KEYFILE_LIST(X)
#undef X
	}
	return "key";
}

enum err keyfile_folder(const char *dir, struct why *why)
{
	struct stat st;
	enum err e = file_mkdirs(dir, 0700, why);
	if (e)
		return e;
	if (stat(dir, &st) != 0)
		return file_why(why, "read", dir, errno);
	if (st.st_mode & 022)
		return err_why(why, ERR_permission,
			"others can write in %s (mode %03o) and so replace the keys in it; run: "
			"chmod 700 %s",
			dir, st.st_mode & 0777u, dir);
	return ERR_OK;
}

enum err keyfile_replace(
	const char *path, enum keyfile_kind kind, const void *bytes, size_t n, struct why *why)
{
	struct buf b;
	buf_init(&b, HEAD + KEYFILE_BYTES + SUM);
	buf_put(&b, MAGIC, 8);
	buf_put_u16(&b, VERSION);
	buf_put_u16(&b, (uint16_t)kind);
	buf_put_u32(&b, (uint32_t)n);
	buf_put(&b, bytes, n);
	struct hash sum = hash_of(b.data, b.len);
	buf_put(&b, sum.b, SUM);
	enum err e = buf_ok(&b) ? file_write(path, b.data, b.len, 0600, why)
				: err_why(why, ERR_nomem, "no memory to write %s", path);
	if (b.data)
		explicit_bzero(b.data, b.len);
	buf_release(&b);
	return e;
}

enum err keyfile_make(
	const char *path, enum keyfile_kind kind, const void *bytes, size_t n, struct why *why)
{
	if (file_exists(path))
		return err_why(why, ERR_exists,
			"%s is there already and holds a %s; it is never overwritten, move it away "
			"if you mean it",
			path, kind_text(kind));
	return keyfile_replace(path, kind, bytes, n, why);
}

static enum err read_secret(
	const char *path, size_t most, uint8_t **bytes, size_t *n, struct why *why)
{
	struct stat st;
	if (stat(path, &st) != 0)
		return file_why(why, "read", path, errno);
	if (st.st_mode & 077)
		return err_why(why, ERR_permission,
			"others can read the secret in %s (mode %03o); run: chmod 600 %s (and make "
			"a new one if somebody may have)",
			path, st.st_mode & 0777u, path);
	return file_read(path, most, bytes, n, why);
}

enum err keyfile_text(const char *path, size_t most, char **text, struct why *why)
{
	uint8_t *bytes = NULL;
	size_t n;
	enum err e = read_secret(path, most, &bytes, &n, why);
	*text = (char *)bytes;
	return e;
}

static enum err check_head(struct rd *r, const struct keyfile_expected *p, struct why *why)
{
	const uint8_t *magic = rd_bytes(r, 8);
	uint16_t version = rd_u16(r), is = rd_u16(r);
	uint32_t len = rd_u32(r);
	if (magic && memcmp(magic, MAGIC, 8) != 0)
		return err_why(why, ERR_magic,
			"%s is not a key file of shoal; put the right one back, or move it away",
			p->path);
	if (!rd_ok(r))
		return err_why(why, ERR_truncated,
			"%s is cut short; put a copy back, or move it away to have a new %s made",
			p->path, kind_text(p->kind));
	if (version != VERSION)
		return err_why(why, ERR_version,
			"%s is of version %u, this program knows version %d; use the program that "
			"made it",
			p->path, version, VERSION);
	if (is != (uint16_t)p->kind)
		return err_why(why, ERR_magic,
			"%s holds a %s where a %s belongs; put the right file there", p->path,
			kind_text(is), kind_text(p->kind));
	if (len != p->n)
		return err_why(why, ERR_syntax,
			"%s is damaged; put a copy back, or move it away to have a new %s made",
			p->path, kind_text(p->kind));
	return ERR_OK;
}

enum err keyfile_parse(const struct keyfile_expected *p, const void *bytes, size_t size, void *out,
	struct why *why)
{
	struct rd r;
	rd_init(&r, bytes, size);
	enum err e = check_head(&r, p, why);
	if (e)
		return e;
	const uint8_t *payload = rd_bytes(&r, p->n), *sum = rd_bytes(&r, SUM);
	if (!payload || !sum || !rd_done(&r))
		return err_why(why, ERR_truncated,
			"%s has the wrong length; put a copy back, or move it away to have a new "
			"%s made",
			p->path, kind_text(p->kind));
	struct hash h = hash_of(bytes, HEAD + p->n);
	if (memcmp(h.b, sum, SUM) != 0)
		return err_why(why, ERR_hash,
			"%s is damaged; put a copy back, or move it away to have a new %s made",
			p->path, kind_text(p->kind));
	memcpy(out, payload, p->n);
	return ERR_OK;
}

enum err keyfile_read(
	const char *path, enum keyfile_kind kind, void *bytes, size_t n, struct why *why)
{
	uint8_t *file;
	size_t size;
	enum err e = read_secret(path, HEAD + KEYFILE_BYTES + SUM, &file, &size, why);
	if (e)
		return e;
	const struct keyfile_expected expected = {path, kind, n};
	e = keyfile_parse(&expected, file, size, bytes, why);
	explicit_bzero(file, size);
	free(file);
	return e;
}
