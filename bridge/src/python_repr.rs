//! Formats values like Python's str and repr.

use std::fmt::Write;
use std::ops::RangeInclusive;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use crate::session;

/// Python has a similar limit.
const MAX_DEPTH: usize = 500;

/// Unicode's format and private characters. repr escapes them like control characters.
const UNPRINTABLE: [RangeInclusive<char>; 14] = [
    '\u{ad}'..='\u{ad}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{180e}'..='\u{180e}',
    '\u{200b}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{e000}'..='\u{f8ff}',
    '\u{feff}'..='\u{feff}',
    '\u{fff0}'..='\u{fffb}',
    '\u{fffe}'..='\u{ffff}',
    '\u{e0000}'..='\u{10ffff}',
];

/// str(value): a string stays unchanged, and undefined becomes empty.
pub fn text_of(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Number if !value.is_integer() => Ok(float_of(value)),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            let mut text = String::new();
            write_repr(&mut text, value, 0)?;
            Ok(text)
        }
        _ => Ok(value.to_string()),
    }
}

fn float_of(value: &Value) -> String {
    float(f64::try_from(value.clone()).unwrap_or(f64::NAN))
}

/// Returns the shortest digits that parse to the same number. Uses an exponent from 1e16 on and
/// below 1e-4.
pub fn float(x: f64) -> String {
    if !x.is_finite() {
        let name = if x.is_nan() { "nan" } else { "inf" };
        return if x < 0.0 {
            format!("-{name}")
        } else {
            name.into()
        };
    }
    if x == 0.0 || (1e-4..1e16).contains(&x.abs()) {
        return format!("{x:?}");
    }
    let scientific = format!("{x:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

fn write_string(text: &mut String, string: &str) {
    let quote = if string.contains('\'') && !string.contains('"') {
        '"'
    } else {
        '\''
    };
    text.push(quote);
    for c in string.chars() {
        let is_unprintable = c.is_control()
            || (c.is_whitespace() && c != ' ')
            || UNPRINTABLE.iter().any(|range| range.contains(&c));
        let code = u32::from(c);
        let _ = match c {
            '\n' => write!(text, "\\n"),
            '\r' => write!(text, "\\r"),
            '\t' => write!(text, "\\t"),
            '\\' => write!(text, "\\\\"),
            _ if c == quote => write!(text, "\\{c}"),
            _ if is_unprintable && code <= 0xff => write!(text, "\\x{code:02x}"),
            _ if is_unprintable && code <= 0xffff => write!(text, "\\u{code:04x}"),
            _ if is_unprintable => write!(text, "\\U{code:08x}"),
            _ => write!(text, "{c}"),
        };
    }
    text.push(quote);
}

fn write_repr(text: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    let invalid = |message: &'static str| Err(Error::new(ErrorKind::InvalidOperation, message));
    if depth > MAX_DEPTH {
        return invalid("a value nested this deep cannot be printed");
    }
    if let Some(reason) = session::overrun() {
        return invalid(reason);
    }
    match value.kind() {
        ValueKind::Undefined => text.push_str("Undefined"),
        ValueKind::Number if !value.is_integer() => text.push_str(&float_of(value)),
        ValueKind::Seq | ValueKind::Iterable => {
            let (open, close) = if value.is_tuple() {
                ('(', ')')
            } else {
                ('[', ']')
            };
            text.push(open);
            let mut n = 0;
            for item in value.try_iter()?.checked() {
                text.push_str(if n > 0 { ", " } else { "" });
                write_repr(text, &item?, depth + 1)?;
                n += 1;
            }
            text.push_str(if value.is_tuple() && n == 1 { "," } else { "" });
            text.push(close);
        }
        ValueKind::Map => {
            text.push('{');
            for (n, key) in value.try_iter()?.checked().enumerate() {
                let key = key?;
                text.push_str(if n > 0 { ", " } else { "" });
                write_repr(text, &key, depth + 1)?;
                text.push_str(": ");
                write_repr(text, &value.get_item(&key)?, depth + 1)?;
            }
            text.push('}');
        }
        ValueKind::String => write_string(text, value.as_str().unwrap_or_default()),
        _ => drop(write!(text, "{value}")),
    }
    Ok(())
}
