/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol of zklock/contender.c, with what of zklock/hub.c and driver.c it rests on, against a small ZooKeeper: every
 * interleaving of a few contenders, searched by spin. model.py runs it, in several configurations, and with one rule taken
 * out at a time. The lease's arithmetic is in lease.pml.
 *
 * How to read it: the data, the servers, the connection, the contender, the hub, the owner, quiet states. Functions are named
 * as in the C sources. All of a d_step happens at once; what a process may do next is one line of its loop that begins
 * with `::'. The properties are assertions:
 *
 *   ORDER   who is entitled has a node at that point of ZooKeeper's order; who is granted has the lowest one
 *   HOLDER  nobody else believes to hold, but for one whose node an operator has deleted
 *   FIFO    grants come in sequence order among the nodes that exist
 *   ORPHAN  who is through has left no node; a node for which nothing is under way is somebody's
 *   WAKE    where nothing is under way, nobody waits for what is gone, and the owner of the lowest node holds it, or has to
 *           let go of it
 *   TWICE   a contender has one node
 *
 * What is left out, and why:
 * - Time. A lease is live or not; a proof makes it live, and at any moment it may end. The servers expire a session only
 *   when no lease of it is live: that is what lease.pml shows, so it is assumed here. For the same reason a proof that is
 *   heard of after the expiry makes nothing live: its deadline has passed.
 * - Names. A node's index is its sequence number; the uuid counts how often its contender has queued.
 * - Missing directories, ACLs, foreign contenders, the end of the sequence, callbacks: unit tests and the simulation.
 * - Servers that fail: to a contender that is a lost connection and then a server that may lag, down to what it has seen.
 *
 * How to add a rule: write it here as in the C source, with the event that makes it matter bounded by a -D; add to model.py
 * a configuration that allows this event, if none does, and a mutant that takes the rule out. Both must end as they should.
 *
 * Bounds, for all contenders together but for ATTEMPTS. LAG: servers need not apply what is committed at once. SPLIT: a
 * connection can break within a batch, so that its head fails and its tail runs on the next one. TRY: contender 0 tries.
 * ELECTION: nobody marks. SHARED: contenders 0 and 1 are of one session. All other -D take out a rule. */
#ifndef CONTENDERS
#define CONTENDERS 2
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 1
#endif
#ifndef LOSSES
#define LOSSES 0 /* of a connection */
#endif
#ifndef LAPSES
#define LAPSES 0 /* of a lease */
#endif
#ifndef EXPIRIES
#define EXPIRIES 0 /* of a session */
#endif
#ifndef DELETES
#define DELETES 0 /* of a contender's node, by an operator */
#endif
#ifndef WRITES
#define WRITES 0 /* into a contender's node, by an operator */
#endif
#ifndef CANCELS
#define CANCELS 0 /* of a wait */
#endif
#ifndef NODES
#define NODES (CONTENDERS * ATTEMPTS + EXPIRIES * CONTENDERS + DELETES + 1) /* one to spare, for who makes two */
#endif
#ifdef SHARED
#define SESSIONS   ((CONTENDERS + 1) / 2)
#define SESSION(x) ((x) / 2)
#define QUEUE_MAX  14
#define STREAM_MAX 20
#else
#define SESSIONS   CONTENDERS
#define SESSION(x) (x)
#define QUEUE_MAX  9
#define STREAM_MAX 14
#endif
#define ZXID_MAX 32
#define NONE     15
#define BIT(x)   (1 << (x))

mtype = { CREATE, LIST, SYNC, BARRIER, FIND, WATCH, WATCH_MARK, MARK, PROVE, DELETE }; /* protocol.h */
mtype = { DONE, NO_NODE, UNKNOWN };
mtype = { DELETED, CHANGED, DOWN, UP, EXPIRED }; /* what else a client hears */
mtype = { IDLE, TRYING, JOIN, ADOPT, WAIT, RELIST, ENTITLED, HELD, LOST, LEAVE };

/* ---- data ----------------------------------------------------------------------------------------------------------- */

/* ZooKeeper is one ordered history of transactions. A node remembers which one made, marked and deleted it, so that the tree
 * as of any transaction is a predicate. */
typedef Node {
	byte created, marked, deleted;
	byte contender, uuid, owner; /* owner: the session's incarnation */
	bool by_operator             /* is how it was deleted */
}
Node nodes[NODES];
byte sequence, zxid;
byte written[ZXID_MAX]; /* by transaction: the node whose data it set, + 1 */

/* A session, at the server that it is connected to, and in the client. */
typedef Session {
	bool connected;               /* as the server sees it */
	byte view;                    /* the newest transaction that the server has applied */
	byte data_watches, child_watches;
	byte expired;                 /* the transaction that expired it; 0: it lives */
	bool link;                    /* as the client has been told */
	byte incarnation, seen;       /* seen: the newest zxid of a reply */
	bool lease, proving           /* proving: a heartbeat is under way */
}
Session sessions[SESSIONS];
chan queue[SESSIONS] = [QUEUE_MAX] of { mtype, byte, byte };                 /* op, contender, node or uuid */
chan stream[SESSIONS] = [STREAM_MAX] of { mtype, byte, byte, mtype, byte }; /* and result, zxid */

/* As in contender.h. Of lists and watches only the newest one sent counts: that is the reply which leaves none under way,
 * if its flag is still set. */
typedef Contender {
	mtype state;
	byte  uuid, attempts;
	byte  node, predecessor;
	bool  next, mark_watched, gone, watched, waited, marked;
	bool  create, create_unknown, find, remove, list, own_watch, predecessor_watch;
	byte  lists, own_watches, predecessor_watches; /* under way */
	bool  settle;                                  /* SETTLED is to come */
	byte  data_watches, child_watches              /* its watchers in the ZooKeeper client */
}
Contender contenders[CONTENDERS];
byte next_in_order; /* FIFO: no lower node is granted any more */
byte losses = LOSSES, lapses = LAPSES, expiries = EXPIRIES, deletes = DELETES, writes = WRITES, cancels = CANCELS;

/* Scratch. What has a meaning from one step to the next is not hidden, and 0 in between. */
hidden byte c, i, j, k, node, from, at, on_data, on_children;
hidden mtype op, result;
byte failed, executed, known;

/* Never true, so that the message of spin names the property; but for those that a search does not look at. */
#ifdef ONLY_FIFO
#define IGNORED 1
#else
#define IGNORED 0
#endif
hidden byte ORDER = IGNORED, HOLDER = IGNORED, FIFO, ORPHAN = IGNORED, WAKE = IGNORED, TWICE = IGNORED;
#define HOLDS(property, condition) assert(property || (condition))

#define me       contenders[c]
#define EXISTS(n, z)   (nodes[n].created && nodes[n].created <= z && (!nodes[n].deleted || nodes[n].deleted > z))
#define IS_MARKED(n, z) (nodes[n].marked && nodes[n].marked <= z)
#define IS_OURS(n)     (nodes[n].contender == c && nodes[n].uuid == me.uuid)
#define CLOSED(s)      (sessions[s].expired && sessions[s].view >= sessions[s].expired) /* and the server knows */
#define ROOM(s)        (len(stream[s]) < STREAM_MAX - 5)
#if SESSIONS == 1
#define ROOM_FOR_ALL ROOM(0)
#elif SESSIONS == 2
#define ROOM_FOR_ALL (ROOM(0) && ROOM(1))
#else
#define ROOM_FOR_ALL (ROOM(0) && ROOM(1) && ROOM(2))
#endif

/* ---- servers -------------------------------------------------------------------------------------------------------- */

/* The server of session x applies one more transaction. A deletion fires both kinds of watches, with one event. */
inline apply(x) {
	sessions[x].view++;
	at = sessions[x].view;
	for (k : 0 .. NODES - 1) {
		if
		:: (sessions[x].data_watches | sessions[x].child_watches) & BIT(k) && nodes[k].deleted == at ->
			sessions[x].data_watches = sessions[x].data_watches & ~BIT(k);
			sessions[x].child_watches = sessions[x].child_watches & ~BIT(k);
			stream[x]!DELETED, 0, k, DONE, at
		:: sessions[x].data_watches & BIT(k) && written[at] == k + 1 ->
			sessions[x].data_watches = sessions[x].data_watches & ~BIT(k);
			stream[x]!CHANGED, 0, k, DONE, at
		:: else
		fi
	}
}

inline catch_up(x) {
	do
	:: sessions[x].view < zxid -> apply(x)
	:: else -> break
	od
}

inline commit() {
	zxid++;
	assert(zxid < ZXID_MAX)
}

inline committed() {
	skip;
#ifndef LAG
	for (from : 0 .. SESSIONS - 1) {
		if
		:: sessions[from].connected -> catch_up(from)
		:: else
		fi
	}
#endif
}

/* A request that goes through the quorum. Of `node'; CREATE finds the uuid there, and leaves the node. */
inline write() {
	result = DONE;
	if
	:: op == CREATE ->
		commit();
		for (i : 0 .. NODES - 1) {
			HOLDS(TWICE, !EXISTS(i, zxid) || nodes[i].contender != c)
		}
		assert(sequence < NODES);
		nodes[sequence].created = zxid;
		nodes[sequence].contender = c;
		nodes[sequence].uuid = node;
		nodes[sequence].owner = sessions[SESSION(c)].incarnation;
		node = sequence;
		sequence++
	:: op == DELETE && EXISTS(node, zxid) -> commit(); nodes[node].deleted = zxid
	:: op == MARK && EXISTS(node, zxid) -> commit(); written[zxid] = node + 1; nodes[node].marked = zxid
	:: op == PROVE && EXISTS(node, zxid) /* a check */
	:: op == BARRIER
	:: else -> result = NO_NODE
	fi;
	committed()
}

/* The server of session s carries out its next request. What was sent through it shows all that was committed before. */
inline execute(s) {
	queue[s]?op, c, node;
	result = DONE;
	if
	:: op == LIST
	:: op == SYNC /* a leader without a quorum answers it, too */
	:: op == FIND && !EXISTS(node, sessions[s].view) -> result = NO_NODE
	:: op == FIND && EXISTS(node, sessions[s].view)
	:: (op == WATCH || op == WATCH_MARK) && !EXISTS(node, sessions[s].view) -> result = NO_NODE
	:: op == WATCH && EXISTS(node, sessions[s].view) ->
		sessions[s].child_watches = sessions[s].child_watches | BIT(node)
	:: op == WATCH_MARK && EXISTS(node, sessions[s].view) ->
		sessions[s].data_watches = sessions[s].data_watches | BIT(node)
	:: else ->
		write();
		catch_up(s)
	fi;
	stream[s]!op, c, node, result, sessions[s].view
}

inline expire(s) {
	commit();
	sessions[s].expired = zxid;
	for (i : 0 .. NODES - 1) {
		if
		:: EXISTS(i, zxid) && SESSION(nodes[i].contender) == s && nodes[i].owner == sessions[s].incarnation ->
			nodes[i].deleted = zxid
		:: else
		fi
	}
	committed()
}

/* ---- the connection ------------------------------------------------------------------------------------------------- */

/* The connection breaks. The client hears all of what is on its way, or nothing; then that it is down, and for each request
 * that has failed that its outcome is not known: `failed' of those not answered, of which `executed' were carried out. */
inline disconnect(s, heard) {
	j = len(stream[s]);
	i = 0;
	do
	:: i < j ->
		stream[s]?op, c, node, result, at;
		if
		:: heard -> stream[s]!op, c, node, result, at
		:: else ->
			if
			:: i == 0 -> stream[s]!DOWN, 0, 0, DONE, 0
			:: else
			fi;
			if
			:: op != DELETED && op != CHANGED -> stream[s]!op, c, node, UNKNOWN, 0
			:: else
			fi
		fi;
		i++
	:: else -> break
	od;
	if
	:: heard || j == 0 -> stream[s]!DOWN, 0, 0, DONE, 0
	:: else
	fi;
	sessions[s].connected = false;
	sessions[s].data_watches = 0;
	sessions[s].child_watches = 0;
	do
	:: failed > 0 ->
		queue[s]?op, c, node;
		j = node;
		if
		:: executed > 0 && !sessions[s].expired && (op == CREATE || op == DELETE || op == MARK) -> write()
		:: else
		fi;
		stream[s]!op, c, j, UNKNOWN, 0;
		failed--;
		if
		:: executed > 0 -> executed--
		:: else
		fi
	:: else -> break
	od
}

inline choose_what_fails(s) {
	failed = len(queue[s]);
#ifdef SPLIT
	do
	:: failed > 0 -> failed--
	:: break
	od;
#endif
	do
	:: executed < failed -> executed++
	:: break
	od
}

/* What the client has received it has taken into account, also where nobody has been told yet: the newest zxid, and what
 * it watches. */
inline receive_all(s) {
	known = sessions[s].seen;
	on_data = 0;
	on_children = 0;
	for (c : 0 .. CONTENDERS - 1) {
		if
		:: SESSION(c) == s ->
			on_data = on_data | me.data_watches;
			on_children = on_children | me.child_watches
		:: else
		fi
	}
	i = len(stream[s]);
	do
	:: i > 0 ->
		stream[s]?op, c, node, result, at;
		stream[s]!op, c, node, result, at;
		if
		:: op == DELETED ->
			on_data = on_data & ~BIT(node);
			on_children = on_children & ~BIT(node)
		:: op == CHANGED -> on_data = on_data & ~BIT(node)
		:: op == WATCH && result == DONE -> on_children = on_children | BIT(node)
		:: op == WATCH_MARK && result == DONE -> on_data = on_data | BIT(node)
		:: else
		fi;
		if
		:: op != DELETED && op != CHANGED && at > known -> known = at
		:: else
		fi;
		i--
	:: else -> break
	od
}

/* The client tells the new server what it watches and what it has seen: what it has missed it is told now. */
inline set_watches(s, n) {
	j = false;
	at = known + 1;
	do
	:: at <= sessions[s].view ->
		if
		:: written[at] == n + 1 -> j = true
		:: else
		fi;
		at++
	:: else -> break
	od;
	if
	:: (on_data | on_children) & BIT(n) && !EXISTS(n, sessions[s].view) -> stream[s]!DELETED, 0, n, DONE, 0
	:: (on_data | on_children) & BIT(n) && EXISTS(n, sessions[s].view) ->
		if
		:: on_data & BIT(n) && j -> stream[s]!CHANGED, 0, n, DONE, 0
		:: on_data & BIT(n) && !j -> sessions[s].data_watches = sessions[s].data_watches | BIT(n)
		:: else
		fi;
		sessions[s].child_watches = sessions[s].child_watches | (on_children & BIT(n))
	:: else
	fi
}

/* Missed events come in any order: these two are all that matter for two nodes. */
inline connect(s, upwards) {
	receive_all(s);
	sessions[s].connected = true;
	stream[s]!UP, 0, 0, DONE, 0;
	for (i : 0 .. NODES - 1) {
		if
		:: upwards -> node = i
		:: else -> node = NODES - 1 - i
		fi;
		set_watches(s, node)
	}
	known = 0
}

/* A server that has applied less than the client has seen does not take it. */
inline choose_view(s) {
	d_step { receive_all(s); sessions[s].view = zxid };
#ifdef LAG
	do
	:: sessions[s].view > known -> sessions[s].view--
	:: break
	od
#endif
}

/* What was received before the connection broke is heard; DOWN and UP are not sent by a server and cannot be lost. */
#define MUST_BE_HEARD(s) (stream[s]??[DOWN, 0, 0, DONE, 0] || stream[s]??[UP, 0, 0, DONE, 0])
#define NEXT_IS_READ(s) \
	(queue[s]?[LIST, _, _] || queue[s]?[SYNC, _, _] || queue[s]?[FIND, _, _] || queue[s]?[WATCH, _, _] || \
	 queue[s]?[WATCH_MARK, _, _])

proctype server(byte s) {
end_server:
	do
#ifdef LAG
	:: atomic { sessions[s].connected && sessions[s].view < zxid && ROOM(s) -> d_step { apply(s); skip } }
#endif
	:: atomic {
		sessions[s].connected && !CLOSED(s) && len(queue[s]) && ROOM_FOR_ALL &&
		(!sessions[s].expired || NEXT_IS_READ(s)) -> d_step { execute(s); skip }
	   }
	:: atomic {
		sessions[s].connected && ROOM_FOR_ALL && (CLOSED(s) || losses) ->
		if
		:: CLOSED(s)
		:: !CLOSED(s) -> losses--
		fi;
		choose_what_fails(s);
		if
		:: d_step { disconnect(s, true); skip }
		:: !MUST_BE_HEARD(s) -> d_step { disconnect(s, false); skip }
		fi
	   }
	:: atomic {
		!sessions[s].connected && !sessions[s].expired && ROOM(s) ->
		choose_view(s);
		if
		:: d_step { connect(s, true); skip }
		:: d_step { connect(s, false); skip }
		fi
	   }
	:: atomic {
		!sessions[s].connected && sessions[s].expired && ROOM(s) && !stream[s]??[EXPIRED, 0, 0, DONE, 0] ->
		stream[s]!EXPIRED, 0, 0, DONE, 0
	   }
	:: atomic { expiries && !sessions[s].expired && !sessions[s].lease && ROOM_FOR_ALL ->
		d_step { expiries--; expire(s); skip }
	   }
	od
}

/* Somebody deletes a contender's node by hand, or writes into it. */
inline interfere(n) {
	if
	:: deletes -> d_step { deletes--; commit(); nodes[n].deleted = zxid; nodes[n].by_operator = true; committed(); skip }
	:: writes -> d_step { writes--; commit(); written[zxid] = n + 1; committed(); skip }
	fi
}

proctype operator() {
end_operator:
	do
	:: atomic { (deletes || writes) && EXISTS(0, zxid) && ROOM_FOR_ALL -> interfere(0) }
	:: atomic { (deletes || writes) && EXISTS(1, zxid) && ROOM_FOR_ALL -> interfere(1) }
	:: atomic { (deletes || writes) && EXISTS(2, zxid) && ROOM_FOR_ALL -> interfere(2) }
	od
}

/* ---- the contender: of session s, its number is c ------------------------------------------------------------------- */

#define ask(what, of) queue[s]!what, c, of

inline ask_list() {
	ask(LIST, 0);
	me.list = true;
	me.lists++
}

inline forget_predecessor() {
	me.predecessor = NONE;
	me.next = false;
	me.mark_watched = false;
	me.gone = false;
	me.predecessor_watch = false
}

inline forget_node() {
	me.node = NONE;
	me.watched = false;
	me.marked = false;
	me.own_watch = false;
	me.create = false;
	me.list = false;
	me.find = false;
	me.remove = false;
	me.create_unknown = false;
	me.settle = false;
	forget_predecessor()
}

/* ---- leaving */

inline done() {
	forget_node();
	me.state = IDLE;
	me.waited = false;
	for (i : 0 .. NODES - 1) {
		HOLDS(ORPHAN, !EXISTS(i, zxid) || nodes[i].contender != c)
	}
}

inline look_for_node() {
#ifdef SYNC_FOR_BARRIER
	ask(SYNC, 0);
#else
#ifndef WITHOUT_BARRIER
	ask(BARRIER, 0);
#endif
#endif
	ask_list()
}

#ifdef WITHOUT_UNKNOWN_CREATES /* who gives up forgets a create that is not decided */
#define MAY_HAVE_NODE (me.node != NONE)
#else
#define MAY_HAVE_NODE (me.node != NONE || me.create || me.create_unknown)
#endif

inline leave() {
	forget_predecessor();
	me.list = false;
	me.find = false;
	me.settle = false;
	if
	:: !MAY_HAVE_NODE -> done()
	:: else ->
		me.state = LEAVE;
		if
		:: sessions[s].link && me.node != NONE && !me.remove -> ask(DELETE, me.node); me.remove = true
		:: sessions[s].link && me.node == NONE && !me.create -> look_for_node()
		:: else
		fi
	fi
}

/* ---- queueing */

inline ask_whether_free() {
	me.state = TRYING;
	ask(SYNC, 0);
	ask_list()
}

inline join() {
	me.state = JOIN;
	ask(CREATE, me.uuid);
	me.create = true;
	ask_list()
}

inline new_uuid() {
	me.uuid++
}

inline requeue() {
	forget_node();
	new_uuid();
	me.state = JOIN;
	if
	:: sessions[s].link -> join()
	:: else
	fi
}

inline watch_own() {
	if
	:: !me.watched && !me.own_watch -> ask(WATCH, me.node); me.own_watch = true; me.own_watches++
	:: else
	fi
}

inline watch_predecessor() {
	if
	:: me.next && !me.mark_watched -> ask(WATCH, me.predecessor)
	:: else -> ask(WATCH_MARK, me.predecessor)
	fi;
	me.predecessor_watch = true;
	me.predecessor_watches++
}

inline relist() {
	forget_predecessor();
	me.state = RELIST;
	ask_list()
}

/* ---- our turn */

inline ask_proof() {
	if
	:: sessions[s].link && !sessions[s].proving -> ask(PROVE, me.node); sessions[s].proving = true
	:: else
	fi
}

inline grant() {
	for (i : 0 .. CONTENDERS - 1) {
		HOLDS(HOLDER, i == c || contenders[i].state != HELD || nodes[contenders[i].node].by_operator ||
		      nodes[me.node].by_operator)
	}
	i = 0;
	do
	:: i < me.node -> HOLDS(ORDER, !EXISTS(i, zxid) || !EXISTS(me.node, zxid)); i++
	:: else -> break
	od;
	if
	:: EXISTS(me.node, zxid) -> HOLDS(FIFO, me.node >= next_in_order); next_in_order = me.node + 1
	:: else
	fi;
	forget_predecessor();
	me.state = HELD;
	me.settle = !me.watched || me.waited
}

inline entitled() {
	HOLDS(ORDER, EXISTS(me.node, at));
	if
#ifdef WITHOUT_LEASE
	:: true -> grant()
#else
	:: sessions[s].lease -> grant()
#endif
	:: else ->
		forget_predecessor();
		me.state = ENTITLED;
		watch_own();
		ask_proof()
	fi
}

#ifdef WITHOUT_OWN_WATCH
#define WATCHED true
#else
#define WATCHED me.watched
#endif
#ifdef WITHOUT_LOWEST /* any deletion is our turn */
#define NEXT true
#else
#define NEXT me.next
#endif

inline conclude() {
	if
	:: me.state == WAIT && me.gone && WATCHED && NEXT -> entitled()
	:: me.state == WAIT && me.gone && WATCHED && !NEXT ->
		relist();
		if
		:: !sessions[s].lease -> ask_proof()
		:: else
		fi
	:: else
	fi
}

/* The newest list, of transaction `at', while our node is known. */
inline evaluate() {
	j = 0;
	k = NONE;
	i = 0;
	do
	:: i < me.node ->
		if
		:: EXISTS(i, at) -> j++; k = i
		:: else
		fi;
		i++
	:: else -> break
	od;
	if
	:: !EXISTS(me.node, at) -> requeue()
	:: EXISTS(me.node, at) && j == 0 -> entitled()
#ifdef TRY
	:: EXISTS(me.node, at) && j > 0 && c == 0 ->
#ifdef WITHOUT_TRY_LEAVING
		me.node = NONE;
#endif
		leave()
#endif
	:: else ->
		me.predecessor = k;
		me.next = j == 1;
		me.gone = false;
		me.waited = true;
		me.state = WAIT;
		watch_own();
		watch_predecessor()
	fi
}

/* ---- replies */

inline lose() {
	me.state = LOST;
	me.settle = false
}

/* Our own node was deleted, and not by us. */
inline node_gone() {
	if
	:: me.state == HELD -> forget_node(); lose()
	:: me.state == LOST -> forget_node()
	:: me.state == JOIN || me.state == ADOPT || me.state == WAIT || me.state == RELIST || me.state == ENTITLED ->
		requeue()
	:: else
	fi
}

inline on_create() {
	me.create = false;
	if
	:: result == UNKNOWN ->
#ifndef WITHOUT_LOOKING /* a lost create was never made */
		me.create_unknown = true;
#endif
		if
		:: me.state == LEAVE && sessions[s].link -> look_for_node()
		:: else
		fi
	:: else ->
		me.node = node;
		if
		:: me.state == LEAVE -> leave()
		:: else
		fi
	fi
}

#define FOUND (result == DONE && nodes[node].owner == sessions[s].incarnation)

inline on_find() {
	if
	:: me.find && me.state == ADOPT ->
		me.find = false;
		if
		:: result == UNKNOWN
		:: result != UNKNOWN && FOUND ->
			me.create_unknown = false;
			me.node = node
		:: else ->
			forget_node();
			new_uuid();
			join()
		fi
	:: else
	fi
}

/* Which one of the list is ours, while that is not known: k. */
inline find_ours() {
	k = NONE;
	for (i : 0 .. NODES - 1) {
		if
		:: EXISTS(i, at) && IS_OURS(i) -> k = i
		:: else
		fi
	}
}

inline on_try_list() {
	j = 0;
	for (i : 0 .. NODES - 1) {
		if
		:: EXISTS(i, at) -> j++
		:: else
		fi
	}
	if
	:: j -> leave()
	:: else -> join()
	fi
}

#ifdef ANY_LIST /* an older one counts, too */
#define NEWEST_LIST me.list
#else
#define NEWEST_LIST (me.list && me.lists == 0)
#endif

inline on_list() {
	me.lists--;
	if
	:: NEWEST_LIST ->
		me.list = false;
		if
		:: result == UNKNOWN
		:: result != UNKNOWN && me.state == LEAVE && me.node == NONE && !me.create ->
			me.create_unknown = false;
			find_ours();
			me.node = k;
			leave()
		:: result != UNKNOWN && me.state == TRYING -> on_try_list()
		:: result != UNKNOWN && (me.state == JOIN || me.state == ADOPT || me.state == RELIST) && me.node != NONE ->
			evaluate()
		:: result != UNKNOWN && me.state == ADOPT && me.node == NONE && !me.create && !me.find ->
			find_ours();
			if
			:: k == NONE -> me.create_unknown = false; join()
			:: else -> ask(FIND, k); me.find = true; ask_list()
			fi
		:: else
		fi
	:: else
	fi
}

#define IS_OWN (nodes[node].contender == c)

inline on_watch() {
	j = false;
	if
	:: IS_OWN -> me.own_watches--; j = me.own_watch && me.own_watches == 0
	:: else -> me.predecessor_watches--; j = me.predecessor_watch && me.predecessor_watches == 0
	fi;
	if
	:: j && IS_OWN -> me.own_watch = false
	:: j && !IS_OWN -> me.predecessor_watch = false
	:: else
	fi;
	if
	:: !j || result == UNKNOWN || me.state == LEAVE
	:: else ->
		if
		:: IS_OWN && result == NO_NODE -> node_gone()
		:: IS_OWN && result == DONE -> me.watched = true
		:: !IS_OWN && result == NO_NODE -> me.gone = true
		:: !IS_OWN && result == DONE && op == WATCH_MARK && IS_MARKED(node, at) ->
			me.next = true;
			me.mark_watched = true
		:: else
		fi;
		conclude()
	fi
}

inline on_mark() {
	if
	:: node == me.node && result == UNKNOWN -> me.marked = false
	:: node == me.node && result == NO_NODE && me.state == HELD -> node_gone()
	:: else
	fi
}

inline on_delete() {
	if
	:: me.remove && node == me.node ->
		me.remove = false;
		if
#ifdef WITHOUT_DELETING_AGAIN
		:: true -> done()
#else
		:: result != UNKNOWN -> done()
#endif
		:: else -> leave()
		fi
	:: else
	fi
}

/* ---- events */

inline on_gone() {
	if
	:: node == me.node -> node_gone()
#ifdef GAP_COUNTS
	:: node != me.node && me.state == WAIT && node == me.predecessor ->
#else
	:: node != me.node && me.state == WAIT && sessions[s].link && node == me.predecessor ->
#endif
		me.gone = true;
		conclude()
	:: else
	fi
}

inline on_changed() {
	if
	:: me.state == WAIT && sessions[s].link && !me.gone && node == me.predecessor ->
		me.mark_watched = false;
#ifdef ANY_CHANGE /* is taken for the mark */
		me.next = true;
#endif
#ifndef WITHOUT_WATCHING_AGAIN /* a watch fires once */
		watch_predecessor()
#endif
	:: else
	fi
}

#ifdef ELECTION
#define CAN_MARK false
#else
#define CAN_MARK (me.waited && !me.marked)
#endif

inline on_link_up() {
	if
	:: me.state == TRYING -> ask_whether_free()
	:: me.state == JOIN || me.state == ADOPT || me.state == RELIST || me.state == ENTITLED ->
		if
		:: me.node != NONE -> watch_own(); relist()
		:: me.node == NONE && (me.create || me.create_unknown) -> me.state = ADOPT; look_for_node()
		:: else -> join()
		fi
#ifndef WITHOUT_WATCHES_AFTER_LOSS
	:: me.state == WAIT -> watch_own(); watch_predecessor()
#endif
	:: me.state == HELD ->
#ifndef WITHOUT_HOLDERS_WATCH_AFTER_LOSS
		watch_own();
#endif
		me.settle = me.settle || CAN_MARK
	:: me.state == LEAVE -> leave()
	:: else
	fi
}

inline on_link_down() {
#ifndef GAP_COUNTS
	me.watched = false;
#endif
	me.own_watch = false;
	me.predecessor_watch = false;
	me.list = false;
	me.find = false;
	me.gone = false
}

inline on_expired() {
	i = me.node != NONE || me.create || me.create_unknown;
	on_link_down();
	if
	:: me.state == HELD -> forget_node(); lose()
	:: me.state == LOST -> forget_node()
	:: me.state == LEAVE -> done()
	:: (me.state == JOIN || me.state == ADOPT || me.state == WAIT || me.state == RELIST || me.state == ENTITLED) && i ->
		requeue()
	:: else
	fi;
	me.lists = 0;
	me.own_watches = 0;
	me.predecessor_watches = 0;
	me.data_watches = 0;
	me.child_watches = 0
}

inline on_settled() {
	me.settle = false;
#ifndef WITHOUT_HOLDERS_WATCH
	watch_own();
#endif
	if
	:: CAN_MARK -> me.marked = true; ask(MARK, me.node)
	:: else
	fi
}

inline on_start() {
	me.attempts++;
	new_uuid();
	if
#ifdef TRY
	:: c == 0 && sessions[s].link -> ask_whether_free()
	:: c == 0 && !sessions[s].link -> me.state = TRYING
	:: c > 0 && sessions[s].link -> join()
	:: c > 0 && !sessions[s].link -> me.state = JOIN
#else
	:: sessions[s].link -> join()
	:: else -> me.state = JOIN
#endif
	fi
}

/* ---- the hub -------------------------------------------------------------------------------------------------------- */

#define IS_PROOF \
	((op == CREATE || op == MARK) && result == DONE || op == PROVE && (result == DONE || result == NO_NODE))
#define ALL_OF_SESSION(step) \
	for (c : 0 .. CONTENDERS - 1) { \
		if \
		:: SESSION(c) == s -> step \
		:: else \
		fi \
	}

inline hear_proof() {
	if
	:: me.state == ENTITLED && sessions[s].link && sessions[s].lease -> grant()
	:: else
	fi
}

inline reply() {
	if
	:: result != UNKNOWN && at > sessions[s].seen -> sessions[s].seen = at
	:: else
	fi;
	k = IS_PROOF && !sessions[s].expired;
	sessions[s].lease = sessions[s].lease || k;
	from = k;
	if
	:: op == CREATE -> on_create()
	:: op == LIST -> on_list()
	:: op == FIND -> on_find()
	:: op == WATCH || op == WATCH_MARK ->
		if
		:: result == DONE && op == WATCH -> me.child_watches = me.child_watches | BIT(node)
		:: result == DONE && op == WATCH_MARK -> me.data_watches = me.data_watches | BIT(node)
		:: else
		fi;
		on_watch()
	:: op == MARK -> on_mark()
	:: op == DELETE -> on_delete()
	:: op == PROVE ->
		sessions[s].proving = false;
		if
		:: result == NO_NODE -> on_gone()
		:: else
		fi
	:: else
	fi;
	if
#ifdef WITHOUT_TELLING_ALL /* only who has asked hears of a proof */
	:: from -> hear_proof()
#else
	:: from -> ALL_OF_SESSION(hear_proof())
#endif
	:: else
	fi
}

/* All watchers of the node hear of it. */
inline tell_watcher() {
	if
	:: op == DELETED && (me.data_watches | me.child_watches) & BIT(node) ->
		me.data_watches = me.data_watches & ~BIT(node);
		me.child_watches = me.child_watches & ~BIT(node);
		on_gone()
	:: op == CHANGED && me.data_watches & BIT(node) ->
		me.data_watches = me.data_watches & ~BIT(node);
		on_changed()
	:: else
	fi
}

/* A new session, at a server that has seen all. Whatever was under way is void. */
inline hear_expired() {
	do
	:: len(queue[s]) -> queue[s]?op, c, node
	:: else -> break
	od;
	do
	:: len(stream[s]) -> stream[s]?op, c, node, result, at
	:: else -> break
	od;
	sessions[s].link = false;
	sessions[s].proving = false;
	sessions[s].lease = false;
	ALL_OF_SESSION(on_expired());
	sessions[s].incarnation++;
	sessions[s].expired = 0;
	sessions[s].connected = true;
	sessions[s].view = zxid;
	sessions[s].seen = zxid;
	stream[s]!UP, 0, 0, DONE, 0
}

inline happen() {
	stream[s]?op, c, node, result, at;
	if
	:: op == UP -> sessions[s].link = true; ALL_OF_SESSION(on_link_up())
	:: op == DOWN -> sessions[s].link = false; ALL_OF_SESSION(on_link_down())
	:: op == EXPIRED -> hear_expired()
	:: op == DELETED || op == CHANGED -> ALL_OF_SESSION(tell_watcher())
	:: else -> reply()
	fi
}

#define WANTS_LEASE(x) \
	(contenders[x].state == HELD || contenders[x].state == ENTITLED || contenders[x].state == WAIT && contenders[x].next)
#define HAS_NODE(x)       (contenders[x].node != NONE && contenders[x].state != LEAVE)
#ifdef SHARED
#define WANTED(s)         (WANTS_LEASE(0) && s == 0 || WANTS_LEASE(1) && s == 0 || WANTS_LEASE(CONTENDERS - 1) && s == SESSIONS - 1)
#define WHOSE_NODE(s)     (s == 0 && !HAS_NODE(0) -> 1 : s * 2)
#else
#define WANTED(s)         WANTS_LEASE(s)
#define WHOSE_NODE(s)     s
#endif
#define BEAT_DUE(s)       (sessions[s].link && !sessions[s].lease && WANTED(s))
#define QUEUE_HAS_ROOM(s) (len(queue[s]) < QUEUE_MAX - 5)

proctype hub(byte s) {
end_hub:
	do
	:: atomic { len(stream[s]) && QUEUE_HAS_ROOM(s) -> d_step { happen(); skip } }
	:: atomic { BEAT_DUE(s) && !sessions[s].proving && QUEUE_HAS_ROOM(s) -> d_step { c = WHOSE_NODE(s); ask_proof(); skip } }
	:: atomic { lapses && sessions[s].lease ->
		d_step {
			lapses--;
			sessions[s].lease = false;
			ALL_OF_SESSION(if :: me.state == HELD -> lose() :: else fi);
			skip
		}
	   }
	od
}

/* ---- the owner ------------------------------------------------------------------------------------------------------ */

#define IS_WAITING(x) \
	(contenders[x].state == TRYING || contenders[x].state == JOIN || contenders[x].state == ADOPT || \
	 contenders[x].state == WAIT || contenders[x].state == RELIST || contenders[x].state == ENTITLED)

proctype owner(byte x) {
	byte s = SESSION(x);
end_owner:
	do
	:: atomic { contenders[x].state == IDLE && contenders[x].attempts < ATTEMPTS && QUEUE_HAS_ROOM(s) ->
		d_step { c = x; on_start(); skip }
	   }
	:: atomic { (contenders[x].state == HELD || contenders[x].state == LOST) && QUEUE_HAS_ROOM(s) ->
		d_step { c = x; leave(); skip }
	   }
	:: atomic { cancels && IS_WAITING(x) && QUEUE_HAS_ROOM(s) -> d_step { cancels--; c = x; leave(); skip } }
	:: atomic { contenders[x].settle && sessions[s].link && QUEUE_HAS_ROOM(s) -> d_step { c = x; on_settled(); skip } }
	od
}

/* ---- quiet states: nothing is under way, nothing fails ---------------------------------------------------------------- */

#define SESSION_IS_QUIET(s) \
	(sessions[s].connected && sessions[s].link && !len(queue[s]) && !len(stream[s]) && !sessions[s].expired && \
	 sessions[s].view == zxid && !BEAT_DUE(s))
#define CONTENDER_IS_QUIET(x) (!contenders[x].settle)

inline check_quiet() {
	j = 0;
	for (i : 0 .. NODES - 1) {
		if
		:: EXISTS(i, zxid) ->
			c = nodes[i].contender;
			HOLDS(ORPHAN, me.node == i && me.state != IDLE);
			HOLDS(WAKE, j || me.state == HELD || me.state == LOST);
			j = 1
		:: else
		fi
	}
	for (c : 0 .. CONTENDERS - 1) {
		HOLDS(WAKE, me.state == IDLE || me.state == LOST ||
		      (me.state == HELD || me.state == WAIT) && EXISTS(me.node, zxid))
	}
}

proctype quiet() {
end_quiet:
	do
	:: atomic {
		SESSION_IS_QUIET(0) && SESSION_IS_QUIET(SESSIONS - 1) && SESSION_IS_QUIET(SESSIONS / 2) &&
		CONTENDER_IS_QUIET(0) && CONTENDER_IS_QUIET(1) && CONTENDER_IS_QUIET(CONTENDERS - 1) ->
		d_step { check_quiet(); skip }
	   }
	od
}

init {
	atomic {
		for (c : 0 .. CONTENDERS - 1) {
			me.state = IDLE;
			me.node = NONE;
			me.predecessor = NONE;
			run owner(c)
		}
		for (from : 0 .. SESSIONS - 1) {
			sessions[from].connected = true;
			sessions[from].link = true;
			run server(from);
			run hub(from)
		}
		run operator();
		run quiet()
	}
}
