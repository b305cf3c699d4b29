// What a client of dqbridge does, with the NATS client library and nothing else. Once: npm install
//
//   node dq.mjs push        store a job that is due in two seconds
//   node dq.mjs work [N]    take jobs and finish them, until Ctrl-C or after N of them
//   node dq.mjs nak         give a job back with a delay, finish it at its second attempt
//   node dq.mjs debounce    push one id three times: one delivery, of the last push
//   node dq.mjs pull        ask for one job, at this program's own pace
//
// NATS_URL says where NATS is; without it, nats://127.0.0.1:4222.
import { connect } from "@nats-io/transport-node";

// read takes an answer apart: its data, or an error that says what the bridge said.
function read(msg) {
  const { code, message, data } = msg.json();
  if (code !== 200) throw new Error(`${code}: ${message}`);
  return data;
}

// push stores a job. When it returns, Redis has it. Where no answer came, push again with the same id: that stores
// nothing twice.
async function push(nc, job) {
  const { id, due_at, replaced } = read(await nc.request("dq.push", JSON.stringify(job), { timeout: 5000 }));
  console.log(`pushed ${id}, due ${due_at}, replaced ${replaced ?? false}`);
}

// finish acknowledges a delivery and waits until the job is gone from Redis. msg.respond("+ACK") is quicker and does not
// wait: an ack that is lost means one more delivery.
async function finish(nc, msg) {
  read(await nc.request(msg.reply, "+ACK", { timeout: 5000 }));
}

function show(msg) {
  const job = msg.json();
  const late = Date.now() - Date.parse(job.due_at);
  console.log(`job ${job.id}, attempt ${job.attempt}, ${late} ms after it was due, body ${JSON.stringify(job.body)}`);
  return job;
}

const commands = {
  push: (nc) => push(nc, { topic: "example", delay: 2, body: { to: "ann@example.org" } }),

  // All who name the same queue share the jobs; without it each would get every job.
  async work(nc, limit) {
    const sub = nc.subscribe("dq.ready.example", { queue: "workers", max: limit ? Number(limit) : undefined });
    process.once("SIGINT", () => sub.drain()); // takes no new jobs; those that have come are still done
    console.log("working on dq.ready.example");
    for await (const msg of sub) {
      const job = show(msg);
      // The work goes here. Where it may outlast the TTR, msg.respond("+WPI") now and then starts the TTR again; where
      // it can never succeed, msg.respond("+TERM <reason>") makes the job dead at once.
      await finish(nc, msg).catch((err) => console.log(`${job.id} is not finished, it will come again: ${err.message}`));
    }
  },

  async nak(nc) {
    const topic = "example.nak.node";
    const sub = nc.subscribe(`dq.ready.${topic}`, { queue: "workers" });
    await push(nc, { topic });
    for await (const msg of sub) {
      if (show(msg).attempt > 1) return finish(nc, msg);
      msg.respond(`-NAK ${JSON.stringify({ delay: 1e9 })}`); // nanoseconds
    }
  },

  // Each push takes the place of the one before, with its own due time.
  async debounce(nc) {
    const topic = "example.debounce.node";
    const sub = nc.subscribe(`dq.ready.${topic}`, { queue: "workers" });
    for (const n of [1, 2, 3]) {
      await push(nc, { id: "debounce-node", topic, delay: "2s", on_duplicate: "replace", body: n });
    }
    for await (const msg of sub) {
      show(msg);
      return finish(nc, msg);
    }
  },

  // Waits up to 5 s for a job. The request has 2 s more: a caller that gave up loses the delivery.
  async pull(nc) {
    const topic = "example.pull.node";
    await push(nc, { topic, delay: "500ms" });
    const msg = await nc.request(`dq.pop.${topic}`, JSON.stringify({ wait: "5s" }), { timeout: 7000 });
    if (!msg.headers?.has("Dq-Ack")) return read(msg); // no delivery: an envelope says why
    show(msg);
    return finish(nc, msg);
  },
};

const [name, argument] = process.argv.slice(2);
if (!Object.hasOwn(commands, name ?? "")) {
  console.error("usage: node dq.mjs push | work [N] | nak | debounce | pull");
  process.exit(2);
}
const nc = await connect({ servers: process.env.NATS_URL ?? "nats://127.0.0.1:4222" });
try {
  await commands[name](nc, argument);
} catch (err) {
  console.error(err.message);
  process.exitCode = 1;
} finally {
  await nc.drain();
}
