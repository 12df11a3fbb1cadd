/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_GUARDED_H
#define ZKLOCK_GUARDED_H

/* guarded.h: writes to ZooKeeper's own data that only who holds can make.
 *
 *     zkl_lock_acquire -> grant -> zkl_guarded_set(session, &grant, "/config/active", ...)
 *
 * Each goes in one transaction with a check that the grant's node is there, so that nothing of it is carried out once the
 * lock is lost, released or taken over by another, whatever the writer knows: no pause and no clock comes between. It is the
 * fencing token's part played by the ensemble itself; what lies elsewhere needs the token (fence.h, SQL).
 *
 * They block, and need no lock handle: any session of the ensemble with the same chroot can make them. */

#include <zklock/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zkl_write_type {
	ZKL_WRITE_SET = 1,
	ZKL_WRITE_CREATE, /* persistent, open to whom the session's locks are open */
	ZKL_WRITE_DELETE
} zkl_write_type;

/* path: as of zkl_lock_new(). version: SET and DELETE only if the node's data has this version, -1: whatever it has. */
typedef struct zkl_write {
	zkl_write_type type;
	const char    *path;
	const void    *data; /* SET, CREATE; NULL: none */
	size_t         data_len;
	int32_t        version;
} zkl_write;

#define ZKL_WRITES_MAX 100
/* Bytes of all paths and data: servers end the connection of who sends more than 1 MiB. */
#define ZKL_WRITE_BYTES_MAX 900000

/* All of them, or none. timeout_ms 0 .. 86400000, connecting included.
 * ZKL_ELOST: the grant's node is not there any more, nothing was done. ZKL_EZK: one of the writes is not possible, nothing was
 * done; the message names it, zk_code says why (-101 no node, -110 node exists, -103 other version, -111 not empty).
 * ZKL_EACCES: not permitted, nothing was done. ZKL_ENOTCONN: not sent, nothing was done. ZKL_ETIMEDOUT: no answer, or the
 * connection broke: it was carried out, or will be, or not; read, and see. ZKL_EINVAL: the grant is not below the session's
 * chroot, no writes or too many, a version below -1, a timeout out of range. ZKL_EPATH. ZKL_EDEADLK in a callback.
 * ZKL_ENOMEM.
 * The ZooKeeper client aborts where its session expires between this call's look at its state and the few microseconds
 * later in which it packs more than one write (zoo_amulti frees what it did not set). */
ZKL_API int zkl_guarded_multi(zkl_session *session, const zkl_grant *grant, const zkl_write *writes, size_t count,
                              int64_t timeout_ms, zkl_error *reterr);

/* One of each. */
ZKL_API int zkl_guarded_set(zkl_session *session, const zkl_grant *grant, const char *path, const void *data,
                            size_t data_len, int32_t version, int64_t timeout_ms, zkl_error *reterr);
ZKL_API int zkl_guarded_create(zkl_session *session, const zkl_grant *grant, const char *path, const void *data,
                               size_t data_len, int64_t timeout_ms, zkl_error *reterr);
ZKL_API int zkl_guarded_delete(zkl_session *session, const zkl_grant *grant, const char *path, int32_t version,
                               int64_t timeout_ms, zkl_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
