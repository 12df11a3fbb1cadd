/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_DRIVER_H
#define ZKLOCK_DRIVER_H

/* driver.h: joins contenders to a hub, and to their owner.
 *
 * A handle is what the owner has: a path, options, and at most one attempt at a time. An attempt is one contender with its
 * events. It outlives the owner's interest, and the handle: a node has to go in any case. Never blocks, no threads; all
 * calls but check() are made under the world's mutex. */

#include <zklock/zklock.h>

#include "contender.h"
#include "hub.h"
#include "source.h"

/* What tells locks from elections. */
struct zkl__handle_type {
	enum zkl__kind kind;
	unsigned       contender_flags, option_flags; /* ZKL__CONTENDER_*; those of zkl_options that are possible */
	const char    *stop;                          /* what the owner has to do when it is lost */
};
extern const struct zkl__handle_type zkl__lock_type, zkl__election_type;

struct zkl__handle {
	const struct zkl__handle_type *type;

	struct zkl__hub     *hub;
	struct zkl__attempt *attempt;  /* the present one; NULL: none, or it is over for the owner */
	struct zkl__attempt *attempts; /* all that have not been freed */
	char                *path, *data;
	size_t               data_len;
	unsigned             flags, contender_flags;
	zkl_event_fn        *on_event;
	void                *user;
	int64_t              stop_ns;
	bool                 closed;        /* being freed */
	uint32_t             attempt_count; /* so far */
	_Atomic uint64_t     held, lost;    /* token of the present grant; of the present grant once lost; 0: none */
};

/* What the owner has not been told yet. SUSPENDED and RESUMED are the difference of what is so and what was told. */
enum { ZKL__TELL_OF_WAITING = 1, ZKL__TELL_OF_GRANT = 2, ZKL__TELL_OF_LOSS = 4, ZKL__TELL_OF_END = 8 };

struct zkl__attempt {
	struct zkl__party     party; /* first */
	struct zkl__source    source;
	struct zkl__attempt  *sibling; /* the next one of the handle */
	struct zkl__hub      *hub;
	struct zkl__handle   *handle; /* NULL: nobody listens any more */
	unsigned              references;
	enum zkl__kind        kind;
	struct zkl__contender contender;
	int64_t               give_up_ns, settle_ns, since_ms, stop_ns;
	uint64_t              token;      /* of the grant; 0: none yet */
	int64_t               session_id; /* of the grant */
	/* Towards the owner. */
	const char *text, *why_lost;
	int         code, zk_code;
	int         not_deleted; /* why its node stays as long as the session lives; 0: it went */
	unsigned    events;      /* ZKL__TELL_OF_*, to be delivered */
	uint32_t    ahead;
	uint32_t    number;       /* 1, 2, ... of the handle */
	bool        accepted;     /* the owner knows of the grant, so that only it can let go */
	bool        over;         /* code says how it ended; the contender may still be leaving */
	bool        done;         /* nothing of ours is left */
	bool        lost;         /* the grant was lost */
	bool        pinned;       /* the owner works: its node stays also when it is let go of */
	bool        let_go;       /* that was done while it was pinned */
	bool        told_granted; /* the GRANTED event was delivered */
	bool        suspended, told_suspended;
	bool        deferred; /* a try that waits for the end of the attempt before it */
	char        path[];
};

/* The path must have been checked. ZKL_ENOMEM, ZKL_EINVAL. */
int zkl__handle_init(struct zkl__handle *handle, const struct zkl__handle_type *type, struct zkl__hub *hub,
                     const char *path, const zkl_options *options, zkl_error *reterr);
/* Lets go of everything, for good; what is left of attempts goes on without it. A callback may still be using it. */
void zkl__handle_close(struct zkl__handle *handle);
/* Gives back its memory. */
void zkl__handle_clear(struct zkl__handle *handle);
/* A timeout's end, by the hub's clock; ZKL__NEVER for ZKL_FOREVER. */
int64_t zkl__until(const struct zkl__hub *hub, int64_t timeout_ms);

/* try: timeout_ms 0. The attempt is handle->attempt. ZKL_ESTATE, ZKL_ENOMEM, or the hub's refusal. */
int zkl__handle_start(struct zkl__handle *handle, int64_t timeout_ms, zkl_error *reterr);
/* 0, or ZKL_ENOTHELD. */
int zkl__handle_release(struct zkl__handle *handle);
/* The owner's work is bound to its grant: until unpin, release() takes back the token, but the node stays. */
void zkl__handle_pin(struct zkl__handle *handle);
/* True: the handle was released meanwhile, which takes full effect now. */
bool    zkl__handle_unpin(struct zkl__handle *handle);
int64_t zkl__handle_check(struct zkl__handle *handle, uint64_t token);

/* Whose source it is. */
struct zkl__attempt *zkl__attempt_of(const struct zkl__source *source);
/* Granted, or over? */
bool zkl__attempt_settled(const struct zkl__attempt *attempt);
/* The owner takes the grant, if it is still live; else the attempt is over. True again if it was taken before. */
bool zkl__attempt_accept(struct zkl__attempt *attempt);
void zkl__attempt_grant(const struct zkl__attempt *attempt, zkl_grant *ret);
int  zkl__attempt_error(const struct zkl__attempt *attempt, zkl_error *reterr);
void zkl__attempt_hold(struct zkl__attempt *attempt);
void zkl__attempt_drop(struct zkl__attempt *attempt);

#endif
