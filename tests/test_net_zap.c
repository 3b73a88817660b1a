/* Admission: the table, and requests as libzmq makes them and as it never would. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <zmq.h>
#include "net/zap.h"

static void *context, *asker;
static struct zap *zap;
static uint64_t admitted, refused;

static int setup(void **state)
{
	(void)state;
	struct why why;
	int wait_ms = 10000, none = 0;
	context = zmq_ctx_new();
	admitted = refused = 0;
	assert_int_equal(zap_new(context, &zap, &why), ERR_OK);
	asker = zmq_socket(context, ZMQ_REQ);
	zmq_setsockopt(asker, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
	zmq_setsockopt(asker, ZMQ_LINGER, &none, sizeof none);
	assert_int_equal(zmq_connect(asker, "inproc://zeromq.zap.01"), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	zmq_close(asker);
	zap_free(zap);
	zmq_ctx_term(context);
	return 0;
}

struct frame {
	const void *data;
	size_t len;
};

/* The status that comes back; user gets the User-Id. */
static int ask(const struct frame *frames, size_t n, char user[256])
{
	char status[4] = "", id[256];
	int len = 0, more = 1;
	size_t size = sizeof more;
	for (size_t i = 0; i < n; i++)
		assert_true(zmq_send(asker, frames[i].data, frames[i].len,
				    i + 1 < n ? ZMQ_SNDMORE : 0) >= 0);
	zmq_pollitem_t item = {.socket = zap_socket(zap), .events = ZMQ_POLLIN};
	assert_int_equal(zmq_poll(&item, 1, 10000), 1);
	zap_serve(zap, &admitted, &refused);
	user[0] = 0;
	for (int i = 0; more; i++) {
		len = zmq_recv(asker, id, sizeof id - 1, 0);
		assert_true(len >= 0);
		id[len] = 0;
		if (i == 0)
			assert_string_equal(id, "1.0");
		if (i == 1)
			assert_string_equal(id, "42");
		if (i == 2)
			memcpy(status, id, 3);
		if (i == 4)
			memcpy(user, id, (size_t)len + 1);
		assert_int_equal(zmq_getsockopt(asker, ZMQ_RCVMORE, &more, &size), 0);
	}
	return status[0] == '2' ? 200 : 400;
}

static void fill(uint8_t key[ZAP_KEY], uint8_t v)
{
	memset(key, v, ZAP_KEY);
}

static void the_table_decides(void **state)
{
	(void)state;
	uint8_t keys[3 * ZAP_KEY], back[ZAP_KEY];
	char user[256];
	fill(keys, 9);
	fill(keys + ZAP_KEY, 3);
	fill(keys + 2 * ZAP_KEY, 0xff);
	struct frame good[] = {{"1.0", 3}, {"42", 2}, {ZAP_DOMAIN, strlen(ZAP_DOMAIN)},
		{"127.0.0.1", 9}, {"", 0}, {"CURVE", 5}, {keys + ZAP_KEY, ZAP_KEY}};
	assert_int_equal(ask(good, 7, user), 400); // empty at first
	zap_replace(zap, keys, 3);
	assert_int_equal(ask(good, 7, user), 200);
	assert_true(zap_user(user, back));
	assert_memory_equal(back, keys + ZAP_KEY, ZAP_KEY);
	for (int i = 0; i < 3; i++)
		assert_true(zap_admits(zap, keys + i * ZAP_KEY));
	zap_replace(zap, keys, 1);
	assert_int_equal(ask(good, 7, user), 400);
	assert_string_equal(user, "");
	assert_true(zap_admits(zap, keys));
	assert_false(zap_admits(zap, keys + ZAP_KEY));
	zap_replace(zap, NULL, 0);
	assert_false(zap_admits(zap, keys));
	assert_int_equal(admitted, 1);
	assert_int_equal(refused, 2);
}

static void anything_else_is_refused(void **state)
{
	(void)state;
	uint8_t key[ZAP_KEY], huge[1000] = {0};
	char user[256];
	fill(key, 7);
	zap_replace(zap, key, 1);
	const struct frame good[] = {{"1.0", 3}, {"42", 2}, {ZAP_DOMAIN, strlen(ZAP_DOMAIN)},
		{"127.0.0.1", 9}, {"", 0}, {"CURVE", 5}, {key, ZAP_KEY}};
	static const struct {
		size_t at;
		struct frame frame;
	} bad[] = {{0, {"2.0", 3}}, {2, {"other", 5}}, {2, {"", 0}}, {5, {"NULL", 4}},
		{5, {"PLAIN", 5}}, {5, {"CURV", 4}}};
	struct frame f[8];
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		memcpy(f, good, sizeof good);
		f[bad[i].at] = bad[i].frame;
		assert_int_equal(ask(f, 7, user), 400);
	}
	memcpy(f, good, sizeof good);
	f[6].len = ZAP_KEY - 1;
	assert_int_equal(ask(f, 7, user), 400);
	memcpy(f, good, sizeof good);
	f[4] = (struct frame){huge, sizeof huge};
	assert_int_equal(ask(f, 7, user), 400);
	memcpy(f, good, sizeof good);
	f[7] = good[6];
	assert_int_equal(ask(f, 8, user), 400); // one frame too many
	assert_int_equal(ask(good, 6, user), 400);
	assert_int_equal(ask(good, 2, user), 400);
	assert_int_equal(ask(good, 7, user), 200); // and none of it did harm
	assert_int_equal(admitted, 1);
}

static void a_user_id_is_the_key_in_hex(void **state)
{
	(void)state;
	uint8_t key[ZAP_KEY];
	char text[66];
	memset(text, 'a', 64);
	text[64] = text[65] = 0;
	assert_true(zap_user(text, key));
	assert_int_equal(key[31], 0xaa);
	assert_false(zap_user(NULL, key));
	assert_false(zap_user("", key));
	text[64] = 'a';
	assert_false(zap_user(text, key));
	text[64] = 0;
	text[3] = 'A'; // one spelling only
	assert_false(zap_user(text, key));
	text[3] = 'g';
	assert_false(zap_user(text, key));
}

static void one_per_context(void **state)
{
	(void)state;
	struct zap *second;
	struct why why;
	assert_int_equal(zap_new(context, &second, &why), ERR_network);
	assert_null(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(the_table_decides),
		T(anything_else_is_refused),
		T(a_user_id_is_the_key_in_hex),
		T(one_per_context),
#undef T
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
