/* SPDX-License-Identifier: Apache-2.0 */
#include "mail.h"

#include <string.h>

#include <zklock/guarded.h>

#include "node_data.h"

const char *const mail_paths[TREE_DIRECTORIES] = {"/locks/a", "/elections/b"};

/* A contender's node; NOBODY: nobody knows of it. */
static int16_t find_path(const char *path)
{
	for (int i = 0; i < TREE_DIRECTORIES; i++) {
		size_t length = strlen(mail_paths[i]);

		if (strncmp(path, mail_paths[i], length) == 0 && path[length] == '/')
			return tree_find((int16_t)i, path + length + 1);
	}
	return NOBODY;
}

/* A guarded write is one to a contender's node. */
void mail_request(struct request *ret, uint64_t party, const struct zkl__request *request)
{
	ret->op = request->op;
	ret->id = request->id;
	ret->party = party;
	ret->uuid = request->uuid;
	ret->kind = request->kind;
	ret->directory = strncmp(request->directory, mail_paths[0], strlen(mail_paths[0])) == 0 ? 0 : 1;
	ret->node = (int16_t)(request->name ? tree_find(ret->directory, request->name) : NOBODY);
	if (request->op == ZKL__GUARDED) {
		ret->node = find_path(request->directory);
		ret->target = find_path(request->writes[0].path);
	}
	ret->mark = request->op == ZKL__MARK && zkl__node_data_is_marked(request->data, request->data_len);
}

static void fill_stat(struct zkl__reply *reply, const struct request *r)
{
	const struct tree_node *node = r->node == NOBODY ? NULL : tree_node(r->node);

	if (!node) {
		reply->czxid = tree_directory(r->directory, r->view)->czxid;
	} else {
		reply->czxid = tree_zxid(node->born);
		reply->owner = node->session == NOBODY ? 0 : zk_session_id(node->session);
	}
}

static void fill_list(struct zkl__reply *reply, const struct request *r)
{
	const char *names[TREE_NODES];
	unsigned    count = tree_children(r->directory, r->view, names, TREE_NODES);

	zkl__queue_look(&reply->queue, names, count, r->kind, r->uuid);
	reply->created = (uint32_t)tree_created(r->directory, r->view);
}

void mail_reply(struct zkl__reply *reply, const struct mail *mail)
{
	const struct request *r = zk_request(mail->request);

	memset(reply, 0, sizeof *reply);
	reply->op = r->op;
	reply->id = r->id;
	reply->result = mail->result;
	reply->zk_code = mail->zk_code;
	reply->sent_ns = r->sent_ns;
	reply->replied_ns = mail->replied_ns;
	reply->queue.own_sequence = -1;
	if (r->node != NOBODY && (r->op != ZKL__CREATE || mail->result == ZKL__DONE))
		memcpy(reply->name, tree_node(r->node)->name, sizeof tree_node(r->node)->name);
	reply->failed = r->op == ZKL__GUARDED && mail->result == ZKL__NO_NODE ? r->failed : 0;
	if (mail->result != ZKL__DONE)
		return;
	switch (r->op) {
	case ZKL__LIST:
	case ZKL__LIST_WATCH:
		fill_list(reply, r);
		fill_stat(reply, r);
		break;
	case ZKL__READ:
	case ZKL__READ_WATCH:
		reply->data = "sim";
		reply->data_len = 3;
		fill_stat(reply, r);
		break;
	case ZKL__CREATE:
	case ZKL__FIND:
	case ZKL__FIND_WATCH:
	case ZKL__WATCH:
		fill_stat(reply, r);
		break;
	case ZKL__WATCH_MARK:
		reply->marked = r->mark;
		fill_stat(reply, r);
		break;
	default:
		break;
	}
}

const char *mail_watched_name(const struct mail *mail)
{
	return mail->directory ? strrchr(mail_paths[mail->node], '/') + 1 : tree_node(mail->node)->name;
}

const char *mail_watched_directory(const struct mail *mail)
{
	static const char *const parents[TREE_DIRECTORIES] = {"/locks", "/elections"};

	return mail->directory ? parents[mail->node] : mail_paths[tree_node(mail->node)->directory];
}
