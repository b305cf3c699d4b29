"""What a client of dqbridge does, with the NATS client library and nothing else. Once: pip install nats-py

    python3 dq.py push        store a job that is due in two seconds
    python3 dq.py work [N]    take jobs and finish them, until Ctrl-C or after N of them
    python3 dq.py nak         give a job back with a delay, finish it at its second attempt
    python3 dq.py debounce    push one id three times: one delivery, of the last push
    python3 dq.py pull        ask for one job, at this program's own pace

NATS_URL says where NATS is; without it, nats://127.0.0.1:4222.
"""

import asyncio
import datetime
import json
import os
import signal
import sys

import nats


class Refused(Exception):
    """An answer of the bridge that says no."""


def read(msg):
    """Take an answer apart: its data, or an error that says what the bridge said."""
    answer = json.loads(msg.data)
    if answer["code"] != 200:
        raise Refused(f"{answer['code']}: {answer['message']}")
    return answer["data"]


async def push(nc, job):
    """Store a job. When this returns, Redis has it.

    Where no answer came, push again with the same id: that stores nothing twice.
    """
    data = read(await nc.request("dq.push", json.dumps(job).encode(), timeout=5))
    print(f"pushed {data['id']}, due {data['due_at']}, replaced {data.get('replaced', False)}")


async def finish(nc, msg):
    """Acknowledge a delivery and wait until the job is gone from Redis.

    msg.ack() is quicker and does not wait: an ack that is lost means one more delivery.
    """
    read(await nc.request(msg.reply, b"+ACK", timeout=5))


def show(msg):
    job = json.loads(msg.data)
    due = datetime.datetime.fromisoformat(job["due_at"].replace("Z", "+00:00"))
    late = (datetime.datetime.now(datetime.timezone.utc) - due).total_seconds() * 1000
    print(f"job {job['id']}, attempt {job['attempt']}, {late:.1f} ms after it was due, body {json.dumps(job['body'])}")
    return job


async def cmd_push(nc):
    await push(nc, {"topic": "example", "delay": 2, "body": {"to": "ann@example.org"}})


async def cmd_work(nc, limit="0"):
    # All who name the same queue share the jobs; without it each would get every job.
    sub = await nc.subscribe("dq.ready.example", queue="workers")
    if int(limit) > 0:
        await sub.unsubscribe(limit=int(limit))
    # Ctrl-C takes no new jobs; those that have come are still done.
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: asyncio.ensure_future(sub.drain()))
    print("working on dq.ready.example", flush=True)
    async for msg in sub.messages:
        job = show(msg)
        # The work goes here. Where it may outlast the TTR, msg.in_progress() now and then starts the TTR again; where
        # it can never succeed, msg.term() makes the job dead at once.
        try:
            await finish(nc, msg)
        except (Refused, nats.errors.Error) as err:
            print(f"{job['id']} is not finished, it will come again: {err}")


async def cmd_nak(nc):
    topic = "example.nak.python"
    sub = await nc.subscribe(f"dq.ready.{topic}", queue="workers")
    await push(nc, {"topic": topic})
    while True:
        msg = await sub.next_msg(timeout=10)
        if show(msg)["attempt"] > 1:
            return await finish(nc, msg)
        await msg.nak(delay=1)  # seconds


async def cmd_debounce(nc):
    """Each push takes the place of the one before, with its own due time."""
    topic = "example.debounce.python"
    sub = await nc.subscribe(f"dq.ready.{topic}", queue="workers")
    for n in (1, 2, 3):
        job = {"id": "debounce-python", "topic": topic, "delay": "2s", "on_duplicate": "replace", "body": n}
        await push(nc, job)
    msg = await sub.next_msg(timeout=10)
    show(msg)
    await finish(nc, msg)


async def cmd_pull(nc):
    """Wait up to 5 s for a job. The request has 2 s more: a caller that gave up loses the delivery."""
    topic = "example.pull.python"
    await push(nc, {"topic": topic, "delay": "500ms"})
    msg = await nc.request(f"dq.pop.{topic}", json.dumps({"wait": "5s"}).encode(), timeout=7)
    if "Dq-Ack" not in (msg.headers or {}):  # no delivery: an envelope says why
        return read(msg)
    show(msg)
    await finish(nc, msg)


COMMANDS = {"push": cmd_push, "work": cmd_work, "nak": cmd_nak, "debounce": cmd_debounce, "pull": cmd_pull}


async def main(args):
    if not args or args[0] not in COMMANDS:
        print("usage: python3 dq.py push | work [N] | nak | debounce | pull", file=sys.stderr)
        return 2
    try:
        nc = await nats.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222"))
        try:
            await COMMANDS[args[0]](nc, *args[1:])
        finally:
            await nc.drain()
    except (Refused, nats.errors.Error) as err:
        print(err, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
