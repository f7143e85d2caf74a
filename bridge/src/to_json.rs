//! `tojson` as in the transformers library: Python's json.dumps with its arguments.

use std::fmt::Write;

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, Value};

use crate::python_args::Arguments;
use crate::{python_repr, session};

/// Python has a similar limit.
const MAX_DEPTH: usize = 500;

struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    between_items: String,
    after_key: String,
    sort_keys: bool,
}

pub fn tojson(value: &Value, given: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let given = given.into_values();
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let arguments = Arguments::bind("tojson", &given, &names)?;
    let indent = match arguments.get(1).filter(|indent| !indent.is_none()) {
        None => None,
        Some(indent) => Some(match indent.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(arguments.count(1, 100)?),
        }),
    };
    let compact = if indent.is_some() { "," } else { ", " };
    let (between_items, after_key) = match arguments.get(2).filter(|pair| !pair.is_none()) {
        None => (compact.to_owned(), ": ".to_owned()),
        Some(pair) => {
            let part = |i| Ok::<_, Error>(pair.get_item_by_index(i)?.to_string());
            (part(0)?, part(1)?)
        }
    };
    let style = Style {
        ensure_ascii: arguments.is_true(0),
        indent,
        between_items,
        after_key,
        sort_keys: arguments.is_true(3),
    };
    let mut text = String::new();
    write_value(&mut text, value, &style, 0)?;
    Ok(text)
}

fn write_value(text: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(
            ErrorKind::BadSerialization,
            "the value of tojson is nested too deep",
        ));
    }
    if let Some(reason) = session::overrun() {
        return Err(Error::new(ErrorKind::InvalidOperation, reason));
    }
    match value.kind() {
        ValueKind::None | ValueKind::Bool | ValueKind::Number => text.push_str(&scalar(value)),
        ValueKind::String => write_string(text, value.as_str().unwrap_or_default(), style),
        ValueKind::Seq | ValueKind::Iterable => write_list(text, value, style, depth)?,
        ValueKind::Map => write_object(text, value, style, depth)?,
        other => {
            let message = format!("tojson cannot write a value of the kind {other}");
            return Err(Error::new(ErrorKind::BadSerialization, message));
        }
    }
    Ok(())
}

fn scalar(value: &Value) -> String {
    match value.kind() {
        ValueKind::None => "null".into(),
        ValueKind::Bool => if value.is_true() { "true" } else { "false" }.into(),
        _ if value.is_integer() => value.to_string(),
        _ => float(f64::try_from(value.clone()).unwrap_or(f64::NAN)),
    }
}

/// Formats a number like Python's json, which extends JSON.
fn float(x: f64) -> String {
    if x.is_finite() {
        return python_repr::float(x);
    }
    let name = if x.is_nan() { "NaN" } else { "Infinity" };
    if x < 0.0 {
        format!("-{name}")
    } else {
        name.into()
    }
}

fn new_line(text: &mut String, style: &Style, depth: usize) {
    if let Some(indent) = &style.indent {
        text.push('\n');
        (0..depth).for_each(|_| text.push_str(indent));
    }
}

fn write_list(text: &mut String, list: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    text.push('[');
    let mut is_empty = true;
    for item in list.try_iter()?.checked() {
        if !is_empty {
            text.push_str(&style.between_items);
        }
        is_empty = false;
        new_line(text, style, depth + 1);
        write_value(text, &item?, style, depth + 1)?;
    }
    if !is_empty {
        new_line(text, style, depth);
    }
    text.push(']');
    Ok(())
}

fn write_object(text: &mut String, map: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    let mut members = Vec::new();
    for key in map.try_iter()?.checked() {
        let key = key?;
        members.push((key_text(&key)?, map.get_item(&key)?));
    }
    if style.sort_keys {
        members.sort_by(|a, b| a.0.cmp(&b.0));
    }
    text.push('{');
    for (i, (key, value)) in members.iter().enumerate() {
        if i > 0 {
            text.push_str(&style.between_items);
        }
        new_line(text, style, depth + 1);
        write_string(text, key, style);
        text.push_str(&style.after_key);
        write_value(text, value, style, depth + 1)?;
    }
    if !members.is_empty() {
        new_line(text, style, depth);
    }
    text.push('}');
    Ok(())
}

fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.to_string()),
        ValueKind::None | ValueKind::Bool | ValueKind::Number => Ok(scalar(key)),
        other => {
            let message = format!("tojson cannot write a key of the kind {other}");
            Err(Error::new(ErrorKind::BadSerialization, message))
        }
    }
}

fn write_string(text: &mut String, string: &str, style: &Style) {
    text.push('"');
    for c in string.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            c if c < ' ' || (style.ensure_ascii && c > '~') => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
            c => text.push(c),
        }
    }
    text.push('"');
}
