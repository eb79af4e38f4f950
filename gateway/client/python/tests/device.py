"""A device, which a test kills: adds plays to the buffer of a folder, and says so for each. FIRST is the number of the
first, COUNT how many there are in all. Once it has added HOLD of them it waits to be killed.

With URL it uploads them meanwhile. Its time is its own: between two plays are five seconds, which take none; START is
when it began, and until ten minutes later some of what it sends arrives and no answer does.
"""
import datetime
import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from muniment_client import Client, DeliveryBuffer, MunimentError  # noqa: E402
from muniment_client import buffer as buffers  # noqa: E402

env = os.environ
now = float(env.get("NOW", "0"))
lost = 0


def link(ingest):
    """What is between device and service."""

    def send(caller, lines):
        global lost
        offline = now < float(env["START"]) + 600
        if offline and lost % 2 == 0:
            lost += 1
            raise MunimentError("POST", "unavailable", "no route to host")
        results = ingest(caller, lines)
        if offline:
            lost += 1
            raise MunimentError("POST", "unavailable", "the connection was reset")
        return results

    return send


def pause(seconds):
    """What uploads waits for the time that plays take."""
    end = now + seconds
    while now < end:
        time.sleep(0.001)


def refused(row, why):
    print("refused", row, why, file=sys.stderr)
    os._exit(1)


def upload(buffer):
    try:
        buffer.run()
    except BaseException as err:
        print("it ends with", repr(err), file=sys.stderr)
        os._exit(1)


url = env.get("URL")
if url:
    buffers.ingest = link(buffers.ingest)
buffer = DeliveryBuffer(sys.argv[1], Client(url or "https://service.example", env.get("KEY", "k")), refused=refused, pause=pause)
running = threading.Thread(target=upload, args=(buffer,))
if url:
    running.start()
for n in range(int(env["FIRST"]), int(env["COUNT"])):
    at = datetime.datetime.fromtimestamp(now, datetime.timezone.utc)
    buffer.add({"rightId": env.get("RIGHT", "rgh_1"), "spatialAnchorId": f"screen-{n % 3}", "dwellMs": 4200}, at, f"py-play-{n}")
    print(n, now, flush=True)
    while n - int(env["FIRST"]) + 1 == int(env.get("HOLD", "0")):
        time.sleep(0.001)
    now += 5
    time.sleep(0.001)
while url and buffer.stats().waiting:
    now += 1
    time.sleep(0.001)
buffer.stop()
if url:
    running.join()
buffer.close()
print("lost", lost)
