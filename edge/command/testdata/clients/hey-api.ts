import { createLead, getAgent, listFirings, listInsights, revokeSubscription, subscribe } from "./hey/sdk.gen";
import { client } from "./hey/client.gen";

const [base, key] = process.argv.slice(2) as [string, string];

/** must returns the data of an answer, and ends the program without any. */
function must<T>(answer: { data?: T; error?: unknown; response?: Response }): T {
  if (answer.data === undefined) throw new Error(`${answer.response?.status} ${JSON.stringify(answer.error)}`);
  return answer.data;
}

async function main() {
  client.setConfig({ baseUrl: base as "/", auth: key });
  const profile = must(await getAgent());
  const { insights } = must(await listInsights({ query: { limit: 1 } }));
  const page = must(await listFirings({ query: { limit: 1 } }));
  let all = 0;
  for (let cursor: string | undefined | null; cursor !== null; ) {
    const next = must(await listFirings({ query: { limit: 1, cursor } }));
    all += next.firings.length;
    cursor = next.next_cursor;
  }
  const { lead } = must(
    await createLead({
      headers: { "Idempotency-Key": "hey-api" },
      body: { name: "Sam Okafor", email: "sam@example.com", consent: { status: "express_written", text_snapshot: "I agree." } },
    }),
  );
  const made = must(await subscribe({ body: { target_url: "https://1.1.1.1/hooks", events: ["deal.stage_changed"] } }));
  const revoked = must(await revokeSubscription({ path: { id: made.subscription.id } }));
  const refused = await createLead({ body: { name: "Sam Okafor" } });
  console.log(
    JSON.stringify([
      profile.account.name.length > 0, insights.length, page.limit, lead.last_name, made.secret.length, revoked.ok,
      refused.error?.error, all,
    ]),
  );
}

void main();
