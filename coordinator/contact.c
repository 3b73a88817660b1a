#include "coordinator/contact.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "net/joinlink.h"

static enum err find_link(const char *word, struct joinlink *out, struct why *why)
{
	struct stat st;
	bool folder = !stat(word, &st) && S_ISDIR(st.st_mode);
	if (!folder && strcmp(word, "-") != 0 && !strstr(word, "://") && !file_exists(word))
		return err_why(why, ERR_missing,
			"there is no %s: give the folder of a run, or a file with its join link",
			word);
	char *path = folder ? alloc_must_printf("%s/join.link", word) : alloc_must_strdup(word);
	enum err err = folder && !file_exists(path)
			       ? err_why(why, ERR_missing,
					 "%s holds no join.link: it is not the folder of a run, or "
					 "it was served with --invite-file: give that file",
					 word)
			       : joinlink_read(path, out, why);
	free(path);
	return err;
}

enum err contact(const char *word, struct https_client **out, struct why *why)
{
	struct joinlink link;
	struct https_client_config config;
	struct statement s;
	*out = NULL;
	enum err err = find_link(word, &link, why);
	if (err)
		return err;
	https_client_config_init(&config, &link);
	err = https_client_new(&config, out, why);
	if (!err)
		err = https_client_contact(*out, &link, clock_wall_s(), &s, why);
	if (err) {
		https_client_free(*out);
		*out = NULL;
	}
	return err;
}
