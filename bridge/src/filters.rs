//! Filters and functions that chat templates use and that minijinja lacks or defines differently.

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, Value};

use crate::python_args::Arguments;
use crate::python_methods::{self, is_space, lines, MAX_TEXT_BYTES};
use crate::python_repr::text_of;

const MAX_INDENT: usize = 1000;

/// Ends the rendering with the template's own message.
pub fn raise_exception(message: &Value) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.to_string()))
}

/// Undefined has length 0; a value without a length is an error.
pub fn length(value: &Value) -> Result<usize, Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(0),
        _ => value.len().map_or_else(|| count(value), Ok),
    }
}

fn count(value: &Value) -> Result<usize, Error> {
    if value.kind() != ValueKind::Iterable {
        let message = format!("a value of the kind {} has no length", value.kind());
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    let mut n = 0;
    for item in value.try_iter()?.checked() {
        item?;
        n += 1;
    }
    Ok(n)
}

pub fn trim(value: &Value, given: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let given = given.into_values();
    let arguments = Arguments::bind("trim", &given, &["chars"])?;
    let text = text_of(value)?;
    Ok(match arguments.optional_text(0)? {
        None => text.trim_matches(is_space).to_owned(),
        Some(characters) => text.trim_matches(|c| characters.contains(c)).to_owned(),
    })
}

/// Indents every line except the first. Lines end as in str.splitlines; each end becomes a line
/// feed.
pub fn indent(value: &Value, given: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let given = given.into_values();
    let arguments = Arguments::bind("indent", &given, &["width", "first", "blank"])?;
    let margin = match arguments.get(0) {
        None => " ".repeat(4),
        Some(width) => match width.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(arguments.count(0, MAX_INDENT)?),
        },
    };
    let (first, blank) = (arguments.is_true(1), arguments.is_true(2));
    let text = text_of(value)? + "\n";
    let mut result = String::new();
    for (i, line) in lines(&text).enumerate() {
        if result.len() > MAX_TEXT_BYTES {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "indent: the result is too long",
            ));
        }
        if i > 0 {
            result.push('\n');
        }
        if if i == 0 {
            first
        } else {
            blank || !line.is_empty()
        } {
            result.push_str(&margin);
        }
        result.push_str(line);
    }
    Ok(result)
}

pub fn string(value: &Value) -> Result<String, Error> {
    text_of(value)
}

pub fn escape(value: &Value) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value.clone());
    }
    let mut escaped = String::new();
    for c in text_of(value)?.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&#34;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    Ok(Value::from_safe_string(escaped))
}

pub fn replace(value: &Value, given: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let given = given.into_values();
    let arguments = Arguments::bind("replace", &given, &["old", "new", "count"])?;
    python_methods::replace(&text_of(value)?, &arguments)
}

/// A value that is not a number becomes the default.
pub fn int(value: &Value, given: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let given = given.into_values();
    let arguments = Arguments::bind("int", &given, &["default", "base"])?;
    let base = u32::try_from(arguments.integer(1, 10)?).unwrap_or(0);
    if !(2..=36).contains(&base) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "int: the base is not 2 to 36",
        ));
    }
    let default = || arguments.get(0).cloned().unwrap_or(Value::from(0));
    if value.is_integer() {
        return Ok(value.clone());
    }
    if let Some(whole) = value
        .as_str()
        .and_then(|text| i64::from_str_radix(text.trim(), base).ok())
    {
        return Ok(Value::from(whole));
    }
    Ok(match number(value, "int")? {
        Some(x) if x.abs() < 1e18 => Value::from(x.trunc() as i64),
        _ => default(),
    })
}

pub fn float(value: &Value, given: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let given = given.into_values();
    let arguments = Arguments::bind("float", &given, &["default"])?;
    let default = || arguments.get(0).cloned().unwrap_or(Value::from(0.0));
    Ok(number(value, "float")?.map_or_else(default, Value::from))
}

fn number(value: &Value, filter: &str) -> Result<Option<f64>, Error> {
    match value.kind() {
        ValueKind::Undefined => Err(Error::new(
            ErrorKind::UndefinedError,
            format!("{filter} of an undefined value"),
        )),
        ValueKind::Bool => Ok(Some(f64::from(u8::from(value.is_true())))),
        ValueKind::Number => Ok(f64::try_from(value.clone()).ok()),
        ValueKind::String => Ok(value.as_str().and_then(|text| text.trim().parse().ok())),
        _ => Ok(None),
    }
}

pub fn from_json(value: &Value) -> Result<Value, Error> {
    let text = value
        .as_str()
        .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "from_json needs a string"))?;
    serde_json::from_str(text).map_err(|e| {
        Error::new(
            ErrorKind::InvalidOperation,
            format!("from_json needs JSON: {e}"),
        )
    })
}
