/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "agenda.h"

bool report_tracing;

static struct {
	bool           failed;
	enum invariant invariant;
	char           text[300];
} report;

void report_begin(bool trace)
{
	report_tracing = trace;
	report.failed = false;
}

const char *invariant_name(enum invariant invariant)
{
	static const char *const names[] = {
#define NAME(id, name, text) name,
		INVARIANTS(NAME)
#undef NAME
	};

	return names[invariant];
}

void report_failure(enum invariant invariant, const char *format, ...)
{
	va_list list;

	if (report.failed)
		return;
	report.failed = true;
	report.invariant = invariant;
	va_start(list, format);
	vsnprintf(report.text, sizeof report.text, format, list);
	va_end(list);
	TRACE("VIOLATED %s: %s", invariant_name(invariant), report.text);
}

bool report_failed(void)
{
	return report.failed;
}

enum invariant report_invariant(void)
{
	return report.invariant;
}

const char *report_text(void)
{
	return report.text;
}

void report_trace(const char *format, ...)
{
	int64_t now = agenda_now();
	va_list list;

	printf("%6" PRId64 ".%03" PRId64 " ms  ", now / 1000000, now / 1000 % 1000);
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	putchar('\n');
}
