/* Any text as a join link: what is taken is written as a link that says the same. */
#include "base/alloc.h"
#include "net/joinlink.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const struct joinlink *l)
{
	char once[JOINLINK_MAX], twice[JOINLINK_MAX], authority[JOINLINK_HOST + 8];
	struct joinlink back;
	joinlink_format(l, once);
	joinlink_authority(l, authority);
	if (!strstr(once, authority) || joinlink_parse(once, &back, NULL))
		abort();
	joinlink_format(&back, twice);
	if (strcmp(once, twice) || strcmp(l->host, back.host) || l->port != back.port ||
		memcmp(&l->run, &back.run, sizeof l->run) ||
		memcmp(&l->key, &back.key, sizeof l->key) || strcmp(l->invite, back.invite))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct joinlink l;
	struct why why = {0};
	char *text = alloc_must(size + 1);
	memcpy(text, data, size);
	text[size] = 0;
	if (!joinlink_parse(text, &l, &why))
		check_again(&l);
	else if (!why.code || !why.text[0])
		abort();
	free(text);
	return 0;
}
