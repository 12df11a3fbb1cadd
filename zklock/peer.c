/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"

#include <stdio.h>
#include <string.h>

#include "node_data.h"

void zkl__peer_fill(zkl_peer *ret, const char *name, int64_t directory_czxid, uint32_t contenders,
                    const struct zkl__reply *read)
{
	const char *own;
	size_t      own_len;

	memset(ret, 0, sizeof *ret);
	ret->epoch = (uint64_t)zkl__queue_sequence(name);
	ret->token = (uint64_t)directory_czxid + ret->epoch;
	ret->since_ms = read->born_ms;
	/* Who had to wait for it wrote its mark when it was granted; who had not holds from the start. */
	if (zkl__node_data_is_ours(read->data, read->data_len))
		ret->held_ms = read->marked ? read->changed_ms : read->born_ms;
	ret->waiting = contenders - 1;
	zkl__node_data_read(read->data, read->data_len, ret->id, &own, &own_len);
	if (!ret->id[0])
		snprintf(ret->id, sizeof ret->id, "%s", name);
	ret->data_len = (uint32_t)own_len;
	if (own_len > sizeof ret->data)
		own_len = sizeof ret->data;
	if (own_len)
		memcpy(ret->data, own, own_len);
}
