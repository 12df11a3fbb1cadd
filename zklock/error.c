/* SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What a server refuses with; newer ones know codes that the ZooKeeper client does not (-125 of 3.7 and later). */
static const char *zookeeper_text(int zk_code)
{
	switch (zk_code) {
	case -6:
		return "not implemented by this server";
	case -8:
		return "bad arguments";
	case -101:
		return "there is no such node";
	case -103:
		return "the node has another version";
	case -108:
		return "an ephemeral node can have no children";
	case -110:
		return "the node is there already";
	case -111:
		return "the node has children";
	case -114:
		return "invalid access list";
	case -119:
		return "the server is read-only";
	case -125:
		return "a quota is exceeded";
	case -127:
		return "throttled";
	default:
		return "no explanation";
	}
}

int zkl__error(zkl_error *reterr, int code, int zk_code, int sys_errno, const char *format, ...)
{
	va_list args;
	size_t  length;

	if (!reterr)
		return code;
	reterr->code = code;
	reterr->zk_code = zk_code;
	reterr->sys_errno = sys_errno;
	va_start(args, format);
	vsnprintf(reterr->message, sizeof reterr->message, format, args);
	va_end(args);
	length = strlen(reterr->message);
	if (code == ZKL_EZK && zk_code)
		snprintf(reterr->message + length, sizeof reterr->message - length, ": ZooKeeper error %d, %s", zk_code,
		         zookeeper_text(zk_code));
	for (char *c = reterr->message; *c; c++)
		if (*c == '\n' || *c == '\r')
			*c = ' ';
	return code;
}

const char *zkl_strerror(int code)
{
	switch (code) {
#define TEXT(name, number, text)                                                                                       \
	case number:                                                                                                   \
		return text;
		ZKL_ERROR_MAP(TEXT)
#undef TEXT
	case 0:
		return "success";
	default:
		return "unknown error";
	}
}

const char *zkl_error_name(int code)
{
	switch (code) {
#define NAME(name, number, text)                                                                                       \
	case number:                                                                                                   \
		return "ZKL_" #name;
		ZKL_ERROR_MAP(NAME)
#undef NAME
	case 0:
		return "ZKL_OK";
	default:
		return "ZKL_?";
	}
}

unsigned zkl_version(void)
{
	return ZKL_VERSION;
}
