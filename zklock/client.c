/* SPDX-License-Identifier: Apache-2.0 */
#define THREADED /* the multi-threaded client's prototypes */
#include "client.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

#include <zklock/guarded.h>

#include "attempts.h"
#include "auth.h"
#include "node_data.h"
#include "thread.h"

#define PATH_SIZE (ZKL_PATH_MAX + ZKL__NAME_MAX + 2)

_Static_assert(sizeof(void *) >= sizeof(uint32_t), "a watcher is the context of a watch");

/* One request under way. Its mail is its reply, so that a callback needs no memory. */
struct operation {
	struct zkl__mail    mail; /* first */
	struct operation   *previous, *next;
	struct zkl__client *client;
	enum zkl__kind      kind;
	struct zkl__uuid    uuid;
	/* MAKE_PATH: replies that are missing, and one while it is being sent; errors of the first part that had one, of the
	 * last part, and of sending. */
	atomic_uint     parts;
	int             first_error, last_error, send_error;
	zoo_op_t        check; /* BARRIER, PROVE */
	zoo_op_result_t check_result;
	/* GUARDED: one more than the writes, for the check */
	zoo_op_result_t *results;
	size_t           result_count;
	char             path[PATH_SIZE];
};

struct zkl__client {
	struct zkl__client_options options;
	zhandle_t                 *handle;  /* NULL: there was no memory for another one */
	clientid_t                 session; /* as last told by a server; on a thread of the client */
	pthread_mutex_t            mutex;   /* of all below */
	struct zkl__mail          *first, **last;
	struct operation          *operations;
	atomic_bool                mail_lost;
	struct zkl__mail          *last_word; /* LOST, made while there was memory; it ends the client */
};

struct access {
	struct ACL_vector vector;
	struct ACL        list[ZKL__IDENTITIES_MAX + 2];
};

/* ---- mailbox ---------------------------------------------------------------------------------------------------------- */

static void post(struct zkl__client *client, struct zkl__mail *mail)
{
	pthread_mutex_lock(&client->mutex);
	mail->next = NULL;
	*client->last = mail;
	client->last = &mail->next;
	pthread_mutex_unlock(&client->mutex);
	client->options.wake(client->options.wake_arg);
}

static void lose_mail(struct zkl__client *client)
{
	atomic_store(&client->mail_lost, true);
	client->options.wake(client->options.wake_arg);
}

static struct zkl__mail *new_mail(struct zkl__client *client, enum zkl__mail_type type)
{
	struct zkl__mail *mail = calloc(1, sizeof *mail);

	if (mail)
		mail->type = type;
	else
		lose_mail(client);
	return mail;
}

struct zkl__mail *zkl__client_take(struct zkl__client *client)
{
	struct zkl__mail *mail;

	pthread_mutex_lock(&client->mutex);
	/* Behind the others, and with them: one wake can stand for both. */
	if (atomic_load(&client->mail_lost) && client->last_word) {
		*client->last = client->last_word;
		client->last_word = NULL;
	}
	mail = client->first;
	client->first = NULL;
	client->last = &client->first;
	pthread_mutex_unlock(&client->mutex);
	return mail;
}

void zkl__mail_free(struct zkl__mail *mail)
{
	free((void *)mail->reply.data);
	free(mail);
}

/* ---- operations -------------------------------------------------------------------------------------------------------- */

static enum zkl__result result_of(int rc)
{
	switch (rc) {
	case ZOK:
		return ZKL__DONE;
	case ZNONODE:
		return ZKL__NO_NODE;
	case ZNODEEXISTS:
		return ZKL__EXISTS;
	case ZNOTEMPTY:
		return ZKL__NOT_EMPTY;
	case ZNOAUTH:
		return ZKL__DENIED;
	case ZNOCHILDRENFOREPHEMERALS:
		return ZKL__BARREN;
	case ZINVALIDACL:
		return ZKL__UNCLAIMED;
	case ZRUNTIMEINCONSISTENCY:
	case ZCONNECTIONLOSS:
	case ZMARSHALLINGERROR:
	case ZOPERATIONTIMEOUT:
	case ZINVALIDSTATE:
	case ZSESSIONEXPIRED:
	case ZAUTHFAILED:
	case ZCLOSING:
	case ZSESSIONMOVED:
		return ZKL__UNKNOWN;
	default:
		return ZKL__REFUSED;
	}
}

static struct operation *new_operation(struct zkl__client *client, uint64_t party, const struct zkl__request *request)
{
	struct operation *op = calloc(1, sizeof *op);

	if (!op)
		return NULL;
	op->client = client;
	op->kind = request->kind;
	op->uuid = request->uuid;
	op->mail.type = ZKL__MAIL_REPLY;
	op->mail.party = party;
	op->mail.reply.op = request->op;
	op->mail.reply.id = request->id;
	op->mail.reply.queue.own_sequence = -1;
	if (request->name)
		snprintf(op->mail.reply.name, sizeof op->mail.reply.name, "%s", request->name);
	snprintf(op->path, sizeof op->path, "%s%s%s%s", client->options.chroot, request->directory,
	         request->name ? "/" : "", request->name ? request->name : "");
	pthread_mutex_lock(&client->mutex);
	op->next = client->operations;
	if (op->next)
		op->next->previous = op;
	client->operations = op;
	pthread_mutex_unlock(&client->mutex);
	op->mail.reply.sent_ns = client->options.now_ns();
	return op;
}

/* A server can take a client back just as its session is being ended: a follower that asked its leader before the end was
 * committed, and hears the answer after it. From then on it answers pings, and each request with "expired", and never hangs
 * up; the client stays connected. So the reply is the end. Where the connection broke, the next server tells. */
static void note_end(struct zkl__client *client, int rc)
{
	struct zkl__mail *mail;

	if (rc != ZSESSIONEXPIRED || zoo_state(client->handle) != ZOO_CONNECTED_STATE)
		return;
	mail = new_mail(client, ZKL__MAIL_EXPIRED);
	if (mail)
		post(client, mail);
}

static void finish(struct operation *op, int rc)
{
	struct zkl__client *client = op->client;

	op->mail.reply.replied_ns = client->options.now_ns();
	op->mail.reply.zk_code = rc;
	op->mail.reply.result = result_of(rc);
	pthread_mutex_lock(&client->mutex);
	*(op->previous ? &op->previous->next : &client->operations) = op->next;
	if (op->next)
		op->next->previous = op->previous;
	pthread_mutex_unlock(&client->mutex);
	free(op->results);
	op->results = NULL;
	post(client, &op->mail);
	note_end(client, rc);
}

static void note_stat(struct operation *op, const struct Stat *stat)
{
	op->mail.reply.czxid = stat->czxid;
	op->mail.reply.owner = stat->ephemeralOwner;
	op->mail.reply.born_ms = stat->ctime;
	op->mail.reply.changed_ms = stat->mtime;
}

/* ---- completions: on a thread of the client ------------------------------------------------------------------------------ */

static void on_void(int rc, const void *data)
{
	finish((struct operation *)data, rc);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
	if (rc == ZOK)
		note_stat((struct operation *)data, stat);
	finish((struct operation *)data, rc);
}

static void on_string(int rc, const char *string, const void *data)
{
	(void)string;
	finish((struct operation *)data, rc);
}

static void on_created(int rc, const char *path, const struct Stat *stat, const void *data)
{
	struct operation *op = (struct operation *)data;

	if (rc == ZOK) {
		const char *slash = strrchr(path, '/');

		note_stat(op, stat);
		snprintf(op->mail.reply.name, sizeof op->mail.reply.name, "%s", slash ? slash + 1 : path);
	}
	finish(op, rc);
}

/* Of the others, those before it say that they would have been carried out, and those behind it that they were not looked at. */
static void on_guarded(int rc, const void *data)
{
	struct operation *op = (struct operation *)data;

	for (size_t i = 0; result_of(rc) != ZKL__UNKNOWN && i < op->result_count; i++)
		if (op->results[i].err != ZOK && op->results[i].err != ZRUNTIMEINCONSISTENCY) {
			op->mail.reply.failed = i;
			break;
		}
	finish(op, rc);
}

/* A long list is looked at here and not kept. */
static void on_listed(int rc, const struct String_vector *names, const struct Stat *stat, const void *data)
{
	struct operation *op = (struct operation *)data;

	if (rc == ZOK) {
		note_stat(op, stat);
		zkl__queue_look(&op->mail.reply.queue, (const char *const *)names->data, (size_t)names->count, op->kind,
		                op->uuid);
		/* Every create counts twice but for the children that are there (DataNode.copyStat). */
		op->mail.reply.created = ((uint32_t)stat->cversion + (uint32_t)stat->numChildren) / 2;
	}
	finish(op, rc);
}

static void on_children(int rc, const struct String_vector *names, const struct Stat *stat, const void *data)
{
	(void)names;
	on_stat(rc, stat, data);
}

static void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
	struct operation *op = (struct operation *)data;
	size_t            size = value && length > 0 ? (size_t)length : 0;

	if (rc == ZOK) {
		note_stat(op, stat);
		op->mail.reply.marked = zkl__node_data_is_marked(value, size);
	}
	if (rc == ZOK && op->mail.reply.op != ZKL__WATCH_MARK && size) {
		char *copy = malloc(size);

		op->mail.reply.data = copy;
		op->mail.reply.data_len = copy ? size : 0;
		if (copy)
			memcpy(copy, value, size);
		else
			rc = ZSYSTEMERROR;
	}
	finish(op, rc);
}

/* The path's own reply tells, but where it lacks its parent: then the first error does. */
static void finish_part(struct operation *op)
{
	if (atomic_fetch_sub(&op->parts, 1) > 1)
		return;
	finish(op, op->send_error ? op->send_error : op->last_error == ZNONODE ? op->first_error : op->last_error);
}

static void on_path_made(int rc, const char *path, const void *data)
{
	struct operation *op = (struct operation *)data;

	(void)path;
	op->last_error = rc;
	if (rc != ZOK && rc != ZNODEEXISTS && op->first_error == ZOK)
		op->first_error = rc;
	finish_part(op);
}

static void on_auth(int rc, const void *data)
{
	(void)rc; /* a refusal comes as the session's state */
	(void)data;
}

/* ---- watches ------------------------------------------------------------------------------------------------------------- */

static void on_watch(zhandle_t *handle, int type, int state, const char *path, void *context)
{
	struct zkl__client *client = (struct zkl__client *)zoo_get_context(handle);
	size_t              chroot = strlen(client->options.chroot);
	const char         *slash = path && strlen(path) > chroot ? strrchr(path + chroot, '/') : NULL;
	struct zkl__mail   *mail;

	(void)state;
	/* Each watch hears of the session, too, and stays. */
	if (!slash || type == ZOO_SESSION_EVENT || type == ZOO_NOTWATCHING_EVENT)
		return;
	mail = new_mail(client, type == ZOO_DELETED_EVENT ? ZKL__MAIL_GONE : ZKL__MAIL_CHANGED);
	if (!mail)
		return;
	mail->watcher = (uint32_t)(uintptr_t)context;
	snprintf(mail->directory, sizeof mail->directory, "%.*s", (int)(slash - path - (ptrdiff_t)chroot),
	         path + chroot);
	snprintf(mail->reply.name, sizeof mail->reply.name, "%s", slash + 1);
	post(client, mail);
}

static void on_session(zhandle_t *handle, int type, int state, const char *path, void *context)
{
	struct zkl__client *client = context;
	struct zkl__mail   *mail;

	(void)path;
	if (type != ZOO_SESSION_EVENT)
		return;
	mail = new_mail(client, state == ZOO_CONNECTED_STATE         ? ZKL__MAIL_CONNECTED
	                        : state == ZOO_EXPIRED_SESSION_STATE ? ZKL__MAIL_EXPIRED
	                        : state == ZOO_AUTH_FAILED_STATE     ? ZKL__MAIL_AUTH_FAILED
	                                                             : ZKL__MAIL_DISCONNECTED);
	if (!mail)
		return;
	if (state == ZOO_CONNECTED_STATE) {
		client->session = *zoo_client_id(handle);
		client->options.timeout_ms = zoo_recv_timeout(handle);
	}
	mail->session_id = client->session.client_id;
	mail->timeout_ns = client->options.timeout_ms * 1000000;
	post(client, mail);
}

/* ---- requests ------------------------------------------------------------------------------------------------------------ */

/* ZOO_PERM_*, which are no constants in C. */
enum { READ = 0x01, CREATE = 0x04, DELETE = 0x08, ADMIN = 0x10, ALL = 0x1f };

/* Under credentials a lock is its identities' own business: the others read its nodes, and create, read and delete below
 * its directories. Who leads is everybody's: all may read that. */
static void fill_acl(struct access *access, const struct zkl__client_options *options, enum zkl__kind kind,
                     int32_t others)
{
	struct ACL *next = access->list;

	*next++ = (struct ACL){ALL, {(char *)"auth", (char *)""}};
	for (size_t i = 0; i < options->others->count; i++)
		*next++ = (struct ACL){others, {options->others->list[i].scheme, options->others->list[i].id}};
	if (kind == ZKL__KIND_ELECTION)
		*next++ = (struct ACL){READ, {(char *)"world", (char *)"anyone"}};
	access->vector = (struct ACL_vector){(int32_t)(next - access->list), access->list};
}

static const struct ACL_vector *acl(struct zkl__client *client, enum zkl__kind kind, struct access *room,
                                    int32_t others)
{
	if (!client->options.auth)
		return &ZOO_OPEN_ACL_UNSAFE;
	fill_acl(room, &client->options, kind, others);
	return &room->vector;
}

static int send_create(struct zkl__client *client, struct operation *op, const struct zkl__request *request)
{
	char          prefix[ZKL__NAME_MAX];
	size_t        length = strlen(op->path);
	struct access access;

	zkl__queue_prefix(request->kind, request->uuid, prefix);
	snprintf(op->path + length, sizeof op->path - length, "/%s", prefix);
	return zoo_acreate2(client->handle, op->path, request->data, (int)request->data_len,
	                    acl(client, op->kind, &access, READ), ZOO_EPHEMERAL | ZOO_SEQUENCE, on_created, op);
}

/* A multi of one check goes through the quorum and changes nothing. Of two or more the client frees garbage when the session
 * has just expired; of one it does not. */
static int send_check(struct zkl__client *client, struct operation *op)
{
	if (zoo_state(client->handle) != ZOO_CONNECTED_STATE)
		return ZINVALIDSTATE;
	zoo_check_op_init(&op->check, op->path, -1);
	return zoo_amulti(client->handle, 1, &op->check, &op->check_result, on_void, op);
}

/* All parts below the chroot at once, in order. A parent that exists is no error, and neither is one that we may not create
 * as long as it exists. */
static void send_make_path(struct zkl__client *client, struct operation *op)
{
	char                    *end = op->path + strlen(client->options.chroot);
	bool                     more = true;
	struct access            access;
	const struct ACL_vector *list = acl(client, op->kind, &access, CREATE | READ | DELETE);

	atomic_init(&op->parts, 1);
	while (more && op->send_error == ZOK) {
		char *slash = strchr(end + 1, '/');

		more = slash;
		end = slash ? slash : end + strlen(end);
		*end = 0;
		atomic_fetch_add(&op->parts, 1);
		op->send_error = zoo_acreate(client->handle, op->path, NULL, -1, list, ZOO_PERSISTENT, on_path_made,
		                             op);
		if (op->send_error != ZOK)
			atomic_fetch_sub(&op->parts, 1);
		if (more)
			*end = '/';
	}
	finish_part(op);
}

/* Of more than one write the client frees garbage when the session has just expired (guarded.h). */
static int pack_guarded(struct operation *op, zoo_op_t *ops, char (*paths)[PATH_SIZE],
                        const struct zkl__request *request)
{
	struct zkl__client      *client = op->client;
	struct access            access;
	const struct ACL_vector *list = acl(client, ZKL__KIND_LOCK, &access, ALL & ~ADMIN);

	zoo_check_op_init(&ops[0], op->path, -1);
	for (size_t i = 0; i < request->write_count; i++) {
		const zkl_write *write = &request->writes[i];

		snprintf(paths[i], PATH_SIZE, "%s%s", client->options.chroot, write->path);
		if (write->type == ZKL_WRITE_CREATE)
			zoo_create_op_init(&ops[i + 1], paths[i], write->data, write->data ? (int)write->data_len : -1,
			                   list, ZOO_PERSISTENT, NULL, 0);
		else if (write->type == ZKL_WRITE_SET)
			zoo_set_op_init(&ops[i + 1], paths[i], write->data, write->data ? (int)write->data_len : -1,
			                write->version, NULL);
		else
			zoo_delete_op_init(&ops[i + 1], paths[i], write->version);
	}
	if (zoo_state(client->handle) != ZOO_CONNECTED_STATE)
		return ZINVALIDSTATE;
	return zoo_amulti(client->handle, (int)op->result_count, ops, op->results, on_guarded, op);
}

static int send_guarded(struct operation *op, const struct zkl__request *request)
{
	zoo_op_t *ops = calloc(request->write_count + 1, sizeof *ops);
	char(*paths)[PATH_SIZE] = calloc(request->write_count, sizeof *paths);
	int rc = ZSYSTEMERROR;

	op->result_count = request->write_count + 1;
	op->results = calloc(op->result_count, sizeof *op->results);
	if (ops && paths && op->results)
		rc = pack_guarded(op, ops, paths, request);
	free(ops);
	free(paths);
	return rc;
}

static int send_operation(struct zkl__client *client, struct operation *op, const struct zkl__request *request)
{
	zhandle_t *handle = client->handle;
	void      *watcher = (void *)(uintptr_t)zkl__watcher(op->mail.party);

	switch (request->op) {
	case ZKL__CREATE:
		return send_create(client, op, request);
	case ZKL__LIST:
		return zoo_aget_children2(handle, op->path, 0, on_listed, op);
	case ZKL__MAKE_PATH:
		send_make_path(client, op);
		return ZOK;
	case ZKL__SYNC:
		return zoo_async(handle, op->path, on_string, op);
	case ZKL__PROVE:
#ifdef ZKL__READ_IS_PROOF /* only to show that a test finds it */
		return zoo_aexists(handle, op->path, 0, on_stat, op);
#endif
	case ZKL__BARRIER:
		return send_check(client, op);
	case ZKL__FIND:
		return zoo_aexists(handle, op->path, 0, on_stat, op);
	case ZKL__WATCH:
		return zoo_awget_children2(handle, op->path, on_watch, watcher, on_children, op);
	case ZKL__WATCH_MARK:
		return zoo_awget(handle, op->path, on_watch, watcher, on_data, op);
	case ZKL__MARK:
		return zoo_aset(handle, op->path, request->data, (int)request->data_len, -1, on_stat, op);
	case ZKL__DELETE:
	case ZKL__RENEW:
		return zoo_adelete(handle, op->path, -1, on_void, op);
	case ZKL__READ:
		return zoo_aget(handle, op->path, 0, on_data, op);
	case ZKL__READ_WATCH:
		return zoo_awget(handle, op->path, on_watch, watcher, on_data, op);
	case ZKL__LIST_WATCH:
		return zoo_awget_children2(handle, op->path, on_watch, watcher, on_listed, op);
	case ZKL__FIND_WATCH:
		return zoo_awexists(handle, op->path, on_watch, watcher, on_stat, op);
	case ZKL__GUARDED:
		return send_guarded(op, request);
	}
	return ZUNIMPLEMENTED;
}

void zkl__client_send(struct zkl__client *client, uint64_t party, const struct zkl__request *request)
{
	struct operation *op = new_operation(client, party, request);
	int               rc;

	if (!op) {
		lose_mail(client);
		return;
	}
	rc = client->handle ? send_operation(client, op, request) : ZCONNECTIONLOSS;
	if (rc == ZOK)
		return;
	op->mail.reply.sent_ns = 0;
	/* Never sent. The client's memory ran out, or the session is over; then its end is in the mail already. */
	finish(op, rc == ZMARSHALLINGERROR ? ZSYSTEMERROR : rc);
}

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

/* Each line. They are sent before all else, whenever it connects. */
static void add_auth(zhandle_t *handle, const char *auth)
{
	while (*auth) {
		const size_t length = strcspn(auth, "\n"), name = strcspn(auth, ":");
		char         scheme[ZKL__SCHEME_MAX + 1];

		snprintf(scheme, sizeof scheme, "%.*s", (int)name, auth);
		zoo_add_auth(handle, scheme, auth + name + 1, (int)(length - name - 1), on_auth, NULL);
		auth += length + (auth[length] == '\n');
	}
}

/* The client's threads inherit the mask: no signal of the application is for them. Returns whether there is a handle. */
static bool open_handle(struct zkl__client *client, const char *servers)
{
	clientid_t session = client->session; /* its threads start within the call, and may write to it */
	sigset_t   before;

	zkl__thread_block_signals(&before);
	client->handle = zookeeper_init2(servers, on_session, (int)client->options.timeout_ms,
	                                 session.client_id ? &session : NULL, client, ZOO_NO_LOG_CLIENTENV,
	                                 zkl__attempts_note);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!client->handle)
		return false;
	/* The addresses are numeric: never look names up on the thread that sends pings. */
	zoo_set_servers_resolution_delay(client->handle, -1);
	if (client->options.auth)
		add_auth(client->handle, client->options.auth);
	return true;
}

struct zkl__client *zkl__client_new(const struct zkl__client_options *options)
{
	struct zkl__client *client = calloc(1, sizeof *client);
	struct zkl__mail   *last_word = calloc(1, sizeof *last_word);

	if (!client || !last_word) {
		free(client);
		free(last_word);
		return NULL;
	}
	last_word->type = ZKL__MAIL_LOST;
	client->last_word = last_word;
	client->options = *options;
	client->last = &client->first;
	pthread_mutex_init(&client->mutex, NULL);
	if (!open_handle(client, options->servers)) {
		int error = errno;

		pthread_mutex_destroy(&client->mutex);
		free(last_word);
		free(client);
		errno = error;
		return NULL;
	}
	return client;
}

static void close_handle(struct zkl__client *client)
{
	if (client->handle)
		zookeeper_close(client->handle);
	client->handle = NULL;
	/* Closing loses completions (ZOOKEEPER-3868). */
	while (client->operations)
		finish(client->operations, ZCLOSING);
}

/* 0 is what a lost connection leaves behind. */
static bool may_move(int state, bool if_asked)
{
	return state == 0 || state == ZOO_NOTCONNECTED_STATE || state == ZOO_CONNECTING_STATE ||
	       (if_asked && state == ZOO_ASSOCIATING_STATE);
}

bool zkl__client_move(struct zkl__client *client, const char *servers, bool if_asked)
{
	struct zkl__mail *down;

	/* Closing a connected handle ends the session. From CONNECTING that is two rounds of the client's thread away, and it
	 * begins none once the next call has set its first flag. */
	if (!client->handle || !may_move(zoo_state(client->handle), if_asked))
		return false;
	close_handle(client);
	/* A connection that came and went meanwhile may have been told by halves. */
	down = new_mail(client, ZKL__MAIL_DISCONNECTED);
	if (down)
		post(client, down);
	if (!open_handle(client, servers))
		atomic_store(&client->mail_lost, true);
	client->options.wake(client->options.wake_arg);
	return true;
}

bool zkl__client_asked(const struct zkl__client *client)
{
	int state = client->handle ? zoo_state(client->handle) : ZOO_NOTCONNECTED_STATE;

	return state == ZOO_ASSOCIATING_STATE || state == ZOO_CONNECTED_STATE;
}

struct zkl__mail *zkl__client_free(struct zkl__client *client)
{
	struct zkl__mail *left;

	close_handle(client);
	left = client->first;
	pthread_mutex_destroy(&client->mutex);
	free(client->last_word);
	free(client);
	return left;
}
