//! The boundary between a module and its host, for modules written in Rust. The layout
//! of every frame is in the Go package abi, which lies in the module's folder to be read;
//! this file follows it.
//!
//!     mod edge;
//!     edge::serve!(handle);
//!
//!     fn handle(req: &edge::Request, resp: &mut edge::Response) {
//!         resp.status = 200;
//!         resp.body.extend_from_slice(b"{}");
//!     }
//!
//! Calls never overlap, and each starts from the memory image that the host took after
//! the warm-up: what a request leaves in memory is gone for the next one.
#![allow(dead_code)]

use std::cell::UnsafeCell;

/// The first byte of every request and response frame.
const VERSION: u8 = 1;
/// The capacity of the input buffer, which holds every request, in bytes.
const INPUT_SIZE: usize = 128 << 10;

/// A request. Texts that are not UTF-8 are shown with U+FFFD in place of what is not.
#[derive(Default)]
pub struct Request {
    /// Microseconds since the Unix epoch, UTC.
    pub now: i64,
    /// Fresh for every request.
    pub random: [u8; 32],
    pub method: String,
    /// As sent: escaped, without the query.
    pub path: String,
    /// As sent, without "?".
    pub query: String,
    pub client: String,
    pub key_id: String,
    pub account_id: String,
    /// "live" or "test".
    pub environment: String,
    /// The headers that the manifest names, in lower case. The route's parameters are
    /// among them as "{name}".
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// Returns the parameter `name` of the route's path, "" if there is none.
    pub fn param(&self, name: &str) -> &str {
        self.header(&format!("{{{}}}", name)).unwrap_or("")
    }

    /// Returns the last value of a header; its name is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Returns the decoded value of a query parameter; Err if it is there twice, or is
    /// not well escaped.
    pub fn query_value(&self, name: &str) -> Result<Option<String>, ()> {
        let mut found = None;
        for pair in self.query.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if decode(key).as_deref() != Some(name) {
                continue;
            }
            if found.is_some() {
                return Err(());
            }
            found = Some(decode(value).ok_or(())?);
        }
        Ok(found)
    }

    fn parse(frame: &[u8]) -> Option<Request> {
        let mut r = Reader(frame);
        let head = r.take(48)?;
        if head[0] != VERSION {
            return None;
        }
        let mut req = Request { now: i64::from_le_bytes(head[8..16].try_into().ok()?), ..Request::default() };
        req.random.copy_from_slice(&head[16..48]);
        req.method = r.text()?;
        req.path = r.text()?;
        req.query = r.text()?;
        req.client = r.text()?;
        req.key_id = r.text()?;
        req.account_id = r.text()?;
        req.environment = r.text()?;
        r.text()?; // the first parameter, for modules that know of one only
        for _ in 0..u16::from_le_bytes([head[2], head[3]]) {
            req.headers.push((r.text()?, r.text()?));
        }
        req.body = r.bytes()?.to_vec();
        if r.0.is_empty() { Some(req) } else { None }
    }
}

/// The answer to a request. The host adds content-type: application/json.
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    /// Appends text as it is.
    pub fn text(&mut self, text: &str) {
        self.body.extend_from_slice(text.as_bytes());
    }

    /// Appends a JSON string.
    pub fn string(&mut self, text: &str) {
        self.body.push(b'"');
        for c in text.chars() {
            match c {
                '"' => self.text("\\\""),
                '\\' => self.text("\\\\"),
                c if (c as u32) < 0x20 => self.text(&format!("\\u{:04x}", c as u32)),
                c => self.text(c.encode_utf8(&mut [0; 4])),
            }
        }
        self.body.push(b'"');
    }

    /// Answers {"error": code, "reason": reason}, without the reason if it is "".
    pub fn error(&mut self, status: u16, code: &str, reason: &str) {
        self.status = status;
        self.body.clear();
        self.text("{\"error\":");
        self.string(code);
        if !reason.is_empty() {
            self.text(",\"reason\":");
            self.string(reason);
        }
        self.text("}");
    }

    fn append(&self, frame: &mut Vec<u8>) {
        frame.extend_from_slice(&[VERSION, 0]);
        frame.extend_from_slice(&(self.headers.len() as u16).to_le_bytes());
        frame.extend_from_slice(&self.status.to_le_bytes());
        // Reserved, scopes, and five empty texts: only a gate sets those.
        frame.extend_from_slice(&[0; 2 + 4 + 5 * 4]);
        for (name, value) in &self.headers {
            put(frame, name.as_bytes());
            put(frame, value.as_bytes());
        }
        put(frame, &self.body);
    }
}

/// Why the host did not do an operation.
#[derive(Debug, PartialEq)]
pub enum Refused {
    /// The manifest does not grant the capability, or the key lacks the scope.
    Denied,
    NotFound,
    /// Answer 500; the client may try again later.
    Unavailable,
    Limit,
    /// The module's own fault: the frame is malformed, or asks for what cannot be.
    Invalid,
    /// The host failed; its log says why.
    Failed,
}

/// The account of the request's key, and its agent. Needs the capability views.
pub struct Profile {
    pub joined: i64,
    pub agent_id: String,
    pub email: String,
    pub full_name: String,
    pub account_id: String,
    pub account_name: String,
    pub mode: String,
}

/// Asks the host for the account of the request's key.
pub fn profile() -> Result<Profile, Refused> {
    let answer = call(5, &[])?;
    let mut r = Reader(&answer);
    let mut parse = || {
        Some(Profile {
            joined: i64::from_le_bytes(r.take(8)?.try_into().ok()?),
            agent_id: r.text()?,
            email: r.text()?,
            full_name: r.text()?,
            account_id: r.text()?,
            account_name: r.text()?,
            mode: r.text()?,
        })
    };
    parse().ok_or(Refused::Failed)
}

/// Runs an operation of the host; package abi lists their numbers and frames.
pub fn call(op: i32, frame: &[u8]) -> Result<Vec<u8>, Refused> {
    const SHORT: i32 = -65536;
    let mut out = vec![0; 1024];
    for _ in 0..4 {
        let n = unsafe { host::call(op, frame.as_ptr(), frame.len() as i32, out.as_mut_ptr(), out.len() as i32) };
        match n {
            n if n >= 0 => {
                out.truncate(n as usize);
                return Ok(out);
            }
            n if n <= SHORT => out.resize((SHORT - n) as usize, 0), // so much is needed
            -1 => return Err(Refused::Denied),
            -2 => return Err(Refused::NotFound),
            -3 => return Err(Refused::Unavailable),
            -4 => return Err(Refused::Limit),
            -5 => return Err(Refused::Invalid),
            _ => return Err(Refused::Failed),
        }
    }
    Err(Refused::Failed)
}

/// Writes one line to the host's log. level: -4 debug, 0 info, 4 warn, 8 error.
pub fn log(level: i32, line: &str) {
    unsafe { host::log(level, line.as_ptr(), line.len() as i32) }
}

/// Exports what the host calls, with a function as the handler.
macro_rules! serve {
    ($handle:path) => {
        #[no_mangle]
        pub extern "C" fn edge_input() -> i64 {
            $crate::edge::input()
        }

        #[no_mangle]
        pub extern "C" fn edge_handle(n: i32) -> i64 {
            $crate::edge::handle(n, $handle)
        }
    };
}
pub(crate) use serve;

/// The memory that the host writes requests to and reads responses from. A module has
/// one thread, and calls never overlap.
struct Buffers(UnsafeCell<([u8; INPUT_SIZE], Vec<u8>)>);
unsafe impl Sync for Buffers {}
static BUFFERS: Buffers = Buffers(UnsafeCell::new(([0; INPUT_SIZE], Vec::new())));

pub fn input() -> i64 {
    let (input, _) = unsafe { &*BUFFERS.0.get() };
    span(input)
}

pub fn handle(n: i32, handler: fn(&Request, &mut Response)) -> i64 {
    let (input, output) = unsafe { &mut *BUFFERS.0.get() };
    let req = match input.get(..n as usize).and_then(Request::parse) {
        Some(req) => req,
        None => return 0,
    };
    let mut resp = Response { status: 200, headers: Vec::new(), body: Vec::new() };
    handler(&req, &mut resp);
    output.clear();
    resp.append(output);
    span(output)
}

fn span(b: &[u8]) -> i64 {
    (b.as_ptr() as i64) << 32 | b.len() as i64
}

fn put(frame: &mut Vec<u8>, b: &[u8]) {
    frame.extend_from_slice(&(b.len() as u32).to_le_bytes());
    frame.extend_from_slice(b);
}

/// Decodes %-escapes; None if one is malformed.
fn decode(s: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut rest = s.bytes();
    while let Some(c) = rest.next() {
        if c != b'%' {
            out.push(c);
            continue;
        }
        let digit = |c: Option<u8>| (c? as char).to_digit(16);
        out.push((digit(rest.next())? * 16 + digit(rest.next())?) as u8);
    }
    String::from_utf8(out).ok()
}

/// Reads the fields of a frame in order.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        if n > self.0.len() {
            return None;
        }
        let (taken, rest) = self.0.split_at(n);
        self.0 = rest;
        Some(taken)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = u32::from_le_bytes(self.take(4)?.try_into().ok()?);
        self.take(n as usize)
    }

    fn text(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(self.bytes()?).into_owned())
    }
}

mod host {
    #[link(wasm_import_module = "edge")]
    extern "C" {
        pub fn call(op: i32, ptr: *const u8, len: i32, out: *mut u8, cap: i32) -> i32;
        pub fn log(level: i32, ptr: *const u8, len: i32);
    }
}
