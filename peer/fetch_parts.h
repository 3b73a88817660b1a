/* What the files of the fetch thread's jobs share; nobody else includes it. */
#ifndef PEER_FETCH_PARTS_H
#define PEER_FETCH_PARTS_H
#include "net/https_client.h"
#include "peer/fetch_jobs.h"
#include "peer/take.h"
#include "round/blob.h"

struct fetch_jobs {
	const struct joinlink *link;
	const struct identity_peer *identity;
	const struct proxy *proxy;
	struct traffic *traffic;
	char *dir, *name, *snapshots; /* snapshots: a folder of their own, swept when they served */
	const atomic_bool *stop;
	struct mailbox *results;
	struct blob_store *blobs;
	struct https_client *client;
	struct statement statement;
	struct spec *spec; /* own copy: the control loop has another */
	uint32_t member;   /* own number, once it has joined */
	struct take_from givers[TAKE_FROM];
	size_t n_givers;
	uint64_t givers_ns; /* when they were told; 0: never */
	/* Of a piece that the line to the coordinator was cut in; goes on there, else a line that
	 * is cut often would never carry one. */
	struct hash partial_of;
	uint8_t *partial; /* OBJECT_PIECE bytes, or NULL */
	size_t partial_len;
	uint64_t told_ns;
};

/* ---- fetch_jobs.c */
enum err fetch_jobs_signed(struct fetch_jobs *j, const char *path, const char *type, json_t **body,
	struct why *why) MUST_CHECK;
enum err fetch_jobs_roster(struct fetch_jobs *j, struct roster **out, struct why *why) MUST_CHECK;
enum err fetch_jobs_check_stop(const struct fetch_jobs *j, struct why *why) MUST_CHECK;
void fetch_jobs_blob_url(const struct hash *name, char out[static 96]);
/* Tells how far a job is, now and then. */
void fetch_jobs_progress(struct fetch_jobs *j, enum fetch_job job, uint64_t have, uint64_t size);
/* Who gives to others now, into j->givers. */
void fetch_jobs_givers(struct fetch_jobs *j);

/* What is to be had: a blob of this size, for this job, into this store. */
struct fetch_wanted {
	struct blob_store *store;
	enum fetch_job job;
	struct hash name;
	uint64_t size;
};
/* From the coordinator, going on where an earlier try stopped.  What is there is verified; the
 * store removes it if it is damaged. */
enum err fetch_jobs_blob(
	struct fetch_jobs *j, const struct fetch_wanted *w, struct why *why) MUST_CHECK;

/* ---- fetch_pieces.c */
/* The same from other peers and the coordinator, by the hashes of its pieces (owned by the
 * caller), through the file at path. */
enum err fetch_pieces_blob(struct fetch_jobs *j, const struct fetch_wanted *w,
	const struct hash *hashes, const char *path, struct take_outcome *from_peers,
	struct why *why) MUST_CHECK;

struct fetch_record {
	struct hash name;
	uint64_t size;
	uint8_t *bytes; /* NULL: not here; owned by the caller */
};
/* Those of the records that other peers give. */
enum err fetch_pieces_records(struct fetch_jobs *j, struct fetch_record *records, size_t n,
	struct take_outcome *from_peers, struct why *why) MUST_CHECK;

#endif
