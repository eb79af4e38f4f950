package issue

import "golang.org/x/sys/unix"

// yieldProcessor gives this thread the lowest priority. Where that is refused it keeps its own, and
// batches delay single deliveries more.
func yieldProcessor() { _ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 19) }
