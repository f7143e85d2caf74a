//! `strftime_now(format)`: local time or the time in the input, in the format of the C library's
//! strftime.

use std::cell::RefCell;
use std::ffi::CString;

use minijinja::{Error, ErrorKind};

const MAX_FORMAT_BYTES: usize = 256;
const MAX_TEXT_BYTES: usize = 4096;

thread_local! {
    // Each rendering has its own thread.
    static FIXED: RefCell<Option<libc::tm>> = const { RefCell::new(None) };
}

fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// Sets the clock of this thread's rendering to "YYYY-MM-DDTHH:MM:SS".
pub fn fix(text: &str) -> Result<(), Error> {
    let time = parse(text).ok_or_else(|| {
        invalid(format!(
            "strftime_now is {text:?}, not like 2026-07-26T12:30:00"
        ))
    })?;
    FIXED.set(Some(time));
    Ok(())
}

fn parse(text: &str) -> Option<libc::tm> {
    let bytes = text.as_bytes();
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if bytes.len() != 19 || separators.iter().any(|&(at, c)| bytes[at] != c) {
        return None;
    }
    let number = |from: usize, n: usize| -> Option<i32> {
        let digits = &bytes[from..from + n];
        let value = |sum: i32, digit: &u8| sum * 10 + i32::from(digit - b'0');
        digits
            .iter()
            .all(u8::is_ascii_digit)
            .then(|| digits.iter().fold(0, value))
    };
    // SAFETY: tm is plain data, for which zero is valid; timegm fills in the weekday and the day of
    // the year.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    time.tm_year = number(0, 4)? - 1900;
    time.tm_mon = number(5, 2)? - 1;
    time.tm_mday = number(8, 2)?;
    time.tm_hour = number(11, 2)?;
    time.tm_min = number(14, 2)?;
    time.tm_sec = number(17, 2)?;
    let (month, day) = (time.tm_mon, time.tm_mday);
    unsafe { libc::timegm(&mut time) };
    (time.tm_mon == month && time.tm_mday == day).then_some(time)
}

fn now() -> libc::tm {
    // SAFETY: both calls write to the given places and otherwise read only the time zone.
    unsafe {
        let seconds = libc::time(std::ptr::null_mut());
        let mut time: libc::tm = std::mem::zeroed();
        libc::localtime_r(&seconds, &mut time);
        time
    }
}

/// The templates' function. As in Python, the time has no zone: %z and %Z are empty.
pub fn strftime_now(format: String) -> Result<String, Error> {
    if format.len() > MAX_FORMAT_BYTES {
        return Err(invalid("the format of strftime_now is too long"));
    }
    // The additional last character distinguishes an empty result from a result that does not fit.
    let format = CString::new(without_zones(&format) + ".")
        .map_err(|_| invalid("the format of strftime_now has a zero byte"))?;
    let time = FIXED.with_borrow(|fixed| fixed.unwrap_or_else(now));
    let mut text = vec![0u8; MAX_TEXT_BYTES];
    // SAFETY: the buffer has the given length, and the format ends with a zero.
    let n_bytes =
        unsafe { libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &time) };
    if n_bytes == 0 {
        return Err(invalid("the text of strftime_now is too long"));
    }
    text.truncate(n_bytes - 1);
    String::from_utf8(text).map_err(|_| invalid("the text of strftime_now is not UTF-8"))
}

fn without_zones(format: &str) -> String {
    let mut result = String::new();
    let mut characters = format.chars();
    while let Some(c) = characters.next() {
        if c != '%' {
            result.push(c);
            continue;
        }
        match characters.next() {
            Some('z' | 'Z') => {}
            Some('f') => result.push_str("000000"),
            Some(other) => result.extend(['%', other]),
            None => result.push_str("%%"),
        }
    }
    result
}
