//! A guest in Rust: tells how often it was called, which must always be the same.
#![allow(static_mut_refs)]

static mut INPUT: [u8; 96 << 10] = [0; 96 << 10];
static mut CALLS: u32 = 0;
static mut RESPONSE: Vec<u8> = Vec::new();

#[no_mangle]
pub extern "C" fn edge_input() -> i64 {
    unsafe { (INPUT.as_ptr() as i64) << 32 | INPUT.len() as i64 }
}

#[no_mangle]
pub extern "C" fn edge_handle(n: i32) -> i64 {
    unsafe {
        CALLS += 1;
        let body = format!("called {} with {:.3}", CALLS, INPUT[..n as usize].len() as f64 / 3.0);
        RESPONSE.clear();
        RESPONSE.extend_from_slice(&[1, 0, 0, 0, 200, 0, 0, 0]);
        RESPONSE.extend_from_slice(&[0; 24]); // scopes, five empty strings
        RESPONSE.extend_from_slice(&(body.len() as u32).to_le_bytes());
        RESPONSE.extend_from_slice(body.as_bytes());
        (RESPONSE.as_ptr() as i64) << 32 | RESPONSE.len() as i64
    }
}
