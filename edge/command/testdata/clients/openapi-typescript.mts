import createClient from "openapi-fetch";
import type { paths } from "./schema.js";
import { firings } from "./firings.mjs";

const [base, key] = process.argv.slice(2) as [string, string];

/** must returns the data of an answer, and ends the program without any. */
function must<T>(answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data === undefined) throw new Error(`${answer.response.status} ${JSON.stringify(answer.error)}`);
  return answer.data;
}

async function main() {
  const api = createClient<paths>({ baseUrl: base, headers: { Authorization: `Bearer ${key}` } });
  const profile = must(await api.GET("/api/v2/public/agents/me"));
  const { insights } = must(await api.GET("/api/v2/public/coaching/insights", { params: { query: { limit: 1 } } }));
  const page = must(await api.GET("/api/v2/public/sentinels/firings", { params: { query: { limit: 1 } } }));
  let all = 0;
  for await (const _ of firings(api, 1)) all++;
  const { lead } = must(
    await api.POST("/api/v2/public/leads", {
      params: { header: { "Idempotency-Key": "typescript" } },
      body: { name: "Sam Okafor", email: "sam@example.com", consent: { status: "express_written", text_snapshot: "I agree." } },
    }),
  );
  const made = must(
    await api.POST("/api/v2/public/webhooks/subscribe", {
      body: { target_url: "https://1.1.1.1/hooks", events: ["deal.stage_changed"] },
    }),
  );
  const id = made.subscription.id;
  const revoked = must(await api.DELETE("/api/v2/public/webhooks/{id}", { params: { path: { id } } }));
  const refused = await api.POST("/api/v2/public/leads", { body: { name: "Sam Okafor" } });
  console.log(
    JSON.stringify([
      profile.account.name.length > 0, insights.length, page.limit, lead.last_name, made.secret.length, revoked.ok,
      refused.error?.error, all,
    ]),
  );
}

void main();
