/* Starts a ClickHouse server out of libchdb.so: clickhouse-local's main, which
 * can be told to listen. Usage: clickhouse LIBRARY [clickhouse-local's flags]. */
#include <dlfcn.h>
#include <stdio.h>

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
	if (argc < 2) {
		fprintf(stderr, "usage: %s LIBRARY [FLAG...]\n", argv[0]);
		return 2;
	}
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	struct result *(*query)(int, char **) = dlsym(library, "query_stable_v2");
	if (!query) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	argv[1] = "clickhouse";
	struct result *r = query(argc - 1, argv + 1);
	if (r && r->error) {
		fprintf(stderr, "%s\n", r->error);
		return 1;
	}
	return 0;
}
