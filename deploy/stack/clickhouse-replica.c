/* Starts a ClickHouse server out of libchdb.so, as clickhouse.c does, that is a replica
 * of a cluster. The library has replicated tables, the interserver protocol and the
 * queue of statements ON CLUSTER, but its way of starting a server begins none of
 * them: what a server proper does at its start is done here, at addresses of one exact
 * build. A library of another build is refused.
 *
 * Usage: clickhouse-replica LIBRARY HOST:PORT [clickhouse-local's flags]
 *
 * HOST:PORT is where the other replicas fetch parts. The configuration lists two
 * listen_host: the first speaks HTTP as ever, the second the interserver protocol. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const unsigned char build[20] = {
	0xd3, 0xd8, 0xf5, 0x51, 0x75, 0x77, 0xad, 0x52, 0x77, 0x5b, 0x52, 0x31, 0x8a, 0x19, 0x37, 0x84, 0xb2, 0xfb, 0x53, 0x17,
};

/* Where what is needed lies in that build. */
enum {
	BUILD_ID = 0x2b8,
	INTERSERVER_CREDENTIALS = 0x1417c940, /* of Context */
	INTERSERVER_ADDRESS = 0x1417c9c0,
	INTERSERVER_SCHEME = 0x1417cac0,
	CREDENTIALS_FOR_SERVING = 0x183d5270, /* whoever returns here asks what to demand, not what to send */
	DDL_IS_ENABLED = 0x142891c0,
	DDL_WORKER = 0x14243400, /* its constructor */
	DDL_WORKER_START = 0x14245300,
	DDL_WORKER_OF_CONTEXT = 0xd80, /* in what all contexts share */
	CREATE_HANDLERS = 0x18395cc0,
	CREATE_HANDLERS_CALL = 0xf117ff6,
};

/* The library's strings (short up to 22 bytes, the length behind them) and pointers. */
typedef struct { char *text; size_t size, capacity; } string;
typedef struct { void *object, *count; } pointer;

static char *base;
static string address;
static uint16_t port;

static void *at(uint64_t offset) { return base + offset; }

static string text(const char *s) {
	string t = {strdup(s), strlen(s), (uint64_t)1 << 63 | (strlen(s) + 1)};
	return t;
}

static void *short_text(char *out, const char *s) {
	memset(out, 0, 24);
	memcpy(out, s, strlen(s));
	out[23] = (char)strlen(s);
	return out;
}

static void *interserver_address(char *out, void *context) {
	(void)context;
	short_text(out, address.text);
	memcpy(out + 24, &port, sizeof port);
	return out;
}

static void *interserver_scheme(char *out, void *context) {
	(void)context;
	return short_text(out, "http");
}

/* Nobody is asked for a password, and an empty name is sent. */
static pointer interserver_credentials(void *context) {
	static char nobody[4096];
	(void)context;
	pointer none = {NULL, NULL}, empty = {nobody, NULL};
	return __builtin_return_address(0) == at(CREDENTIALS_FOR_SERVING) ? none : empty;
}

/* start_ddl begins to take statements ON CLUSTER from the queue, and to put them there. */
static void start_ddl(void *server) {
	static string queue, replicas, prefix, keeper, name;
	queue = text("/clickhouse/task_queue/ddl");
	replicas = text("/clickhouse/task_queue/replicas");
	prefix = text("distributed_ddl");
	keeper = text("default");
	name = text("DDLWorker");
	pointer context = (*(pointer(***)(void *))server)[2](server);
	void *worker = calloc(1, 4096);
	void (*make)(void *, int, string *, string *, pointer, void *, string *, string *, string *, void *, void *) = at(DDL_WORKER);
	make(worker, 1, &queue, &replicas, context, NULL, &prefix, &keeper, &name, NULL, NULL);
	*(void **)(*(char **)context.object + DDL_WORKER_OF_CONTEXT) = worker;
	((void (*)(void *))at(DDL_WORKER_START))(worker);
}

/* create_handlers is called for each listen_host, at the first of which all is set up. */
static pointer create_handlers(void *server, void *config, void *metrics, string *name, string *more) {
	static int calls;
	static string interserver;
	if (++calls == 1)
		start_ddl(server);
	interserver = text("InterserverIOHTTPHandler-factory");
	pointer (*create)(void *, void *, void *, string *, string *) = at(CREATE_HANDLERS);
	return create(server, config, metrics, calls == 2 ? &interserver : name, more);
}

static void put(void *to, const void *code, size_t size) {
	char *page = (char *)((uintptr_t)to & ~(uintptr_t)4095);
	if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
		perror("mprotect");
		exit(2);
	}
	memcpy(to, code, size);
	mprotect(page, 8192, PROT_READ | PROT_EXEC);
}

/* jump makes of a function one that goes on in another. */
static void jump(void *from, void *to) {
	unsigned char code[12] = {0x48, 0xb8, [10] = 0xff, 0xe0};
	memcpy(code + 2, &to, sizeof to);
	put(from, code, sizeof code);
}

/* call makes of one call of a function that of another, by way of a jump near by. */
static void call(char *from, void *to) {
	char *near = MAP_FAILED;
	for (char *p = base; near == MAP_FAILED;) {
		p -= 1 << 20;
		near = mmap((void *)((uintptr_t)p & ~(uintptr_t)4095), 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	}
	jump(near, to);
	int32_t distance = (int32_t)(near - (from + 5));
	put(from + 1, &distance, sizeof distance);
}

/* The answer of query_stable_v2, as the library's header has it. */
struct result {
	char *buf;
	size_t len;
	void *owner;
	double elapsed;
	unsigned long rows, bytes;
	char *error;
};

int main(int argc, char **argv) {
	if (argc < 3 || strchr(argv[2], ':') == NULL) {
		fprintf(stderr, "usage: %s LIBRARY HOST:PORT [FLAG...]\n", argv[0]);
		return 2;
	}
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	struct link_map *map;
	if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	base = (char *)map->l_addr;
	if (memcmp(at(BUILD_ID), build, sizeof build) != 0) {
		fprintf(stderr, "%s is another build\n", argv[1]);
		return 2;
	}
	port = (uint16_t)atoi(strchr(argv[2], ':') + 1);
	*strchr(argv[2], ':') = 0;
	address = text(argv[2]);
	jump(at(INTERSERVER_ADDRESS), interserver_address);
	jump(at(INTERSERVER_SCHEME), interserver_scheme);
	jump(at(INTERSERVER_CREDENTIALS), interserver_credentials);
	put(at(DDL_IS_ENABLED), "\xb0\x01\xc3", 3); /* return true */
	call(at(CREATE_HANDLERS_CALL), create_handlers);

	struct result *(*query)(int, char **) = dlsym(library, "query_stable_v2");
	if (!query) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	argv[2] = "clickhouse";
	struct result *r = query(argc - 2, argv + 2);
	if (r && r->error) {
		fprintf(stderr, "%s\n", r->error);
		return 1;
	}
	return 0;
}
