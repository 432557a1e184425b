"use strict";
// Keeps the overview and the releases live, asks before what cannot be undone, copies secrets.
// Every page works without this.

const pulse = document.querySelector("[data-live]");
if (pulse) {
  const live = document.getElementById("live");
  const say = (text, on) => {
    if (pulse.textContent !== text) pulse.textContent = text;
    pulse.classList.toggle("on", on);
  };
  // The origin sends an event every two seconds. A connection that ended without a word, as
  // that of a laptop which was asleep, brings neither events nor an error.
  const silence = 10_000; // milliseconds
  let shown = "";
  let timer;
  const listen = () => {
    const source = new EventSource(pulse.dataset.live);
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        say("reconnecting", false);
        source.close();
        listen();
      }, silence);
    };
    wait();
    source.addEventListener("live", (event) => {
      wait();
      if (event.data !== shown) {
        const focused = [...live.querySelectorAll("a, button")].indexOf(document.activeElement);
        live.innerHTML = shown = event.data;
        if (focused >= 0) live.querySelectorAll("a, button")[focused]?.focus({ preventScroll: true });
      }
      say("live", true);
    });
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) {
        clearTimeout(timer);
        say("not live: load the page again", false);
      } else say("reconnecting", false);
    });
  };
  listen();
}

// chosen returns what a field of a form holds, as the form shows it; "" for nothing.
const chosen = (form, name) => {
  const options = form.querySelectorAll(`select[name=${name}] option:checked`);
  const values = options.length ? [...options].map((o) => o.text) : new FormData(form).getAll(name).flatMap((v) => v.split(/[\s,]+/));
  return values.filter((v) => v).join(", ");
};

// A second form that is sent before the page after the first is shown, as by a double click,
// would have the browser drop that page, and with it a secret that is shown only once. The
// answer to a form with data-stays is a file, after which no page is shown. After some
// seconds the form counts as stopped, of which browsers tell nobody.
const sendingFor = 5000;
let sentAt = -Infinity;
window.addEventListener("pageshow", () => { sentAt = -Infinity; });

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method === "post" && performance.now() - sentAt < sendingFor) {
    event.preventDefault();
    return;
  }
  const { confirm: question, chosen: names, targets } = form.dataset;
  const lines = (fields) => (fields?.split(" ") ?? []).filter((name) => chosen(form, name)).map((name) => `${name}: ${chosen(form, name)}`);
  const among = lines(targets);
  if (targets && !among.length) among.push("every node");
  if (question && !window.confirm([question, ...lines(names), among.join("\nand ")].filter((line) => line).join("\n"))) event.preventDefault();
  else if (form.method === "post" && !("stays" in form.dataset)) sentAt = performance.now();
});

document.addEventListener("click", async (event) => {
  const id = event.target.dataset.copy;
  if (!id) return;
  const secret = document.getElementById(id);
  try {
    await navigator.clipboard.writeText(secret.textContent);
    event.target.textContent = "Copied";
  } catch {
    window.getSelection().selectAllChildren(secret);
    event.target.textContent = "Selected";
  }
});
