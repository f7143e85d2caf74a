//! Methods of Python's str, dict and list. minijinja-contrib's pycompat has the other, simpler
//! methods.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

use crate::python_args::Arguments;
use crate::{session, slice, source};

/// Max length of a list that a method makes.
const MAX_PARTS: usize = 1 << 20;
/// Max size of a string that a method extends.
pub const MAX_TEXT_BYTES: usize = 64 << 20;

/// Python's str.isspace: Unicode white space and the four ASCII separators.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// Handles every method that the engine does not have.
pub fn call(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if let Some(reason) = session::overrun() {
        return Err(invalid(reason));
    }
    if method == source::SLICE {
        return slice::slice(value, args);
    }
    let result = match value.kind() {
        ValueKind::String => str_method(value.as_str().unwrap_or_default(), method, args)?,
        ValueKind::Seq | ValueKind::Iterable => list_method(value, method, args)?,
        ValueKind::Map => dict_method(value, method, args)?,
        _ => None,
    };
    match result {
        Some(result) => Ok(result),
        None => pycompat::unknown_method_callback(state, value, method, args),
    }
}

fn dict_method(map: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    match method {
        "copy" => {
            Arguments::bind(method, args, &[])?;
            Ok(Some(map.clone()))
        }
        "get" => {
            let arguments = Arguments::bind(method, args, &["key", "default"])?;
            let found = map.get_item(arguments.required(0)?).unwrap_or_default();
            let default = || arguments.get(1).cloned().unwrap_or(Value::from(()));
            Ok(Some(if found.is_undefined() {
                default()
            } else {
                found
            }))
        }
        _ => Ok(None),
    }
}

fn list_method(list: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    match method {
        "copy" => {
            Arguments::bind(method, args, &[])?;
            Ok(Some(list.clone()))
        }
        "index" => {
            let arguments = Arguments::bind(method, args, &["value"])?;
            let wanted = arguments.required(0)?;
            for (i, item) in list.try_iter()?.checked().enumerate() {
                if item? == *wanted {
                    return Ok(Some(Value::from(i)));
                }
            }
            Err(invalid("index: the value is not in the list"))
        }
        _ => Ok(None),
    }
}

fn str_method(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let bind = |names| Arguments::bind(method, args, names);
    let result = match method {
        "strip" | "lstrip" | "rstrip" => Value::from(strip(text, method, &bind(&["chars"])?)?),
        "split" => split(text, &bind(&["sep", "maxsplit"])?)?,
        "rsplit" => rsplit(text, &bind(&["sep", "maxsplit"])?)?,
        "partition" | "rpartition" => partition(text, method, &bind(&["sep"])?)?,
        "splitlines" => split_lines(text, bind(&["keepends"])?.is_true(0))?,
        "removeprefix" => {
            let arguments = bind(&["prefix"])?;
            Value::from(text.strip_prefix(arguments.text(0)?).unwrap_or(text))
        }
        "removesuffix" => {
            let arguments = bind(&["suffix"])?;
            Value::from(text.strip_suffix(arguments.text(0)?).unwrap_or(text))
        }
        "startswith" | "endswith" => affix(text, method, &bind(&["affix", "start", "end"])?)?,
        "find" | "rfind" | "index" | "rindex" => {
            find(text, method, &bind(&["sub", "start", "end"])?)?
        }
        "count" => count(text, &bind(&["sub", "start", "end"])?)?,
        "replace" => replace(text, &bind(&["old", "new", "count"])?)?,
        "join" => join(text, bind(&["items"])?.required(0)?)?,
        "title" => Value::from(title(text)),
        "swapcase" => {
            bind(&[]).map(|_| Value::from(text.chars().flat_map(swap_case).collect::<String>()))?
        }
        "casefold" => bind(&[]).map(|_| Value::from(text.to_lowercase()))?,
        "isspace" => Value::from(!text.is_empty() && text.chars().all(is_space)),
        "ljust" | "rjust" | "center" => justify(text, method, &bind(&["width", "fillchar"])?)?,
        "zfill" => zero_fill(text, &bind(&["width"])?)?,
        _ => return Ok(None),
    };
    Ok(Some(result))
}

fn strip<'a>(text: &'a str, method: &str, arguments: &Arguments) -> Result<&'a str, Error> {
    let characters = arguments.optional_text(0)?;
    let is_stripped = |c| characters.map_or_else(|| is_space(c), |set| set.contains(c));
    Ok(match method {
        "lstrip" => text.trim_start_matches(is_stripped),
        "rstrip" => text.trim_end_matches(is_stripped),
        _ => text.trim_matches(is_stripped),
    })
}

fn list_of<'a>(parts: impl Iterator<Item = &'a str>) -> Result<Value, Error> {
    let mut list = Vec::new();
    for part in parts {
        if list.len() == MAX_PARTS {
            return Err(invalid(format!("a string has more than {MAX_PARTS} parts")));
        }
        list.push(Value::from(part));
    }
    Ok(Value::from(list))
}

/// Returns the max number of splits from Python's maxsplit.
fn n_splits(arguments: &Arguments) -> Result<usize, Error> {
    Ok(usize::try_from(arguments.integer(1, -1)?).unwrap_or(usize::MAX))
}

fn separator<'a>(arguments: &'a Arguments) -> Result<Option<&'a str>, Error> {
    match arguments.optional_text(0)? {
        Some("") => Err(invalid("the separator is empty")),
        other => Ok(other),
    }
}

fn split(text: &str, arguments: &Arguments) -> Result<Value, Error> {
    let max = n_splits(arguments)?;
    if let Some(separator) = separator(arguments)? {
        return list_of(text.splitn(max.saturating_add(1), separator));
    }
    let mut rest = text.trim_start_matches(is_space);
    let mut n = 0;
    list_of(std::iter::from_fn(|| {
        if rest.is_empty() {
            return None;
        }
        let end = if n == max {
            rest.len()
        } else {
            rest.find(is_space).unwrap_or(rest.len())
        };
        let part = &rest[..end];
        rest = rest[end..].trim_start_matches(is_space);
        n += 1;
        Some(part)
    }))
}

fn rsplit(text: &str, arguments: &Arguments) -> Result<Value, Error> {
    let max = n_splits(arguments)?;
    let mut parts: Vec<&str> = Vec::new();
    if let Some(separator) = separator(arguments)? {
        parts.extend(
            text.rsplitn(max.saturating_add(1), separator)
                .take(MAX_PARTS + 1),
        );
    } else {
        let mut rest = text.trim_end_matches(is_space);
        while !rest.is_empty() && parts.len() <= MAX_PARTS {
            let space = if parts.len() == max {
                None
            } else {
                rest.char_indices().rfind(|(_, c)| is_space(*c))
            };
            let start = space.map_or(0, |(at, c)| at + c.len_utf8());
            parts.push(&rest[start..]);
            rest = rest[..start].trim_end_matches(is_space);
        }
    }
    list_of(parts.into_iter().rev())
}

fn partition(text: &str, method: &str, arguments: &Arguments) -> Result<Value, Error> {
    let separator = separator(arguments)?.ok_or_else(|| invalid("partition needs a separator"))?;
    let from_end = method == "rpartition";
    let found = if from_end {
        text.rsplit_once(separator)
    } else {
        text.split_once(separator)
    };
    let parts = match found {
        Some((before, after)) => [before, separator, after],
        None if from_end => ["", "", text],
        None => [text, "", ""],
    };
    list_of(parts.into_iter())
}

/// Returns the lines of str.splitlines with their ends.
fn lines_with_ends(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.find(is_line_end).unwrap_or(rest.len());
        let n_end = match rest[end..].chars().next() {
            Some('\r') if rest[end..].starts_with("\r\n") => 2,
            Some(c) => c.len_utf8(),
            None => 0,
        };
        let (line, others) = rest.split_at(end + n_end);
        rest = others;
        Some(line)
    })
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns the lines of str.splitlines without their ends.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    lines_with_ends(text).map(|line| &line[..line.find(is_line_end).unwrap_or(line.len())])
}

fn split_lines(text: &str, keep_ends: bool) -> Result<Value, Error> {
    if keep_ends {
        list_of(lines_with_ends(text))
    } else {
        list_of(lines(text))
    }
}

/// Returns the part of `text` between the arguments start and end, and the index of its first
/// character. The arguments count characters as in a slice. Returns None if start is after the end.
fn window<'a>(text: &'a str, arguments: &Arguments) -> Result<Option<(&'a str, usize)>, Error> {
    if arguments.get(1).is_none() && arguments.get(2).is_none() {
        return Ok(Some((text, 0)));
    }
    let n = text.chars().count();
    let signed = i64::try_from(n).unwrap_or(i64::MAX);
    let place =
        |i: i64| usize::try_from(if i < 0 { i.saturating_add(signed) } else { i }).unwrap_or(0);
    let start = place(arguments.integer(1, 0)?);
    let end = place(arguments.integer(2, signed)?).min(n);
    if start > end {
        return Ok(None);
    }
    let offset = |i| text.char_indices().nth(i).map_or(text.len(), |(at, _)| at);
    Ok(Some((&text[offset(start)..offset(end)], start)))
}

fn affix(text: &str, method: &str, arguments: &Arguments) -> Result<Value, Error> {
    let affixes = arguments.required(0)?;
    let Some((part, _)) = window(text, arguments)? else {
        return Ok(Value::from(false));
    };
    let has = |affix: &str| match method {
        "startswith" => part.starts_with(affix),
        _ => part.ends_with(affix),
    };
    if !affixes.is_tuple() {
        return Ok(Value::from(has(arguments.text(0)?)));
    }
    for affix in affixes.try_iter()?.checked() {
        let affix = affix?;
        let affix = affix
            .as_str()
            .ok_or_else(|| invalid(format!("{method} needs strings")))?;
        if has(affix) {
            return Ok(Value::from(true));
        }
    }
    Ok(Value::from(false))
}

fn find(text: &str, method: &str, arguments: &Arguments) -> Result<Value, Error> {
    let wanted = arguments.text(0)?;
    let found = window(text, arguments)?.and_then(|(part, first)| {
        let at = if method.starts_with('r') {
            part.rfind(wanted)
        } else {
            part.find(wanted)
        };
        at.map(|at| first + part[..at].chars().count())
    });
    match found {
        Some(at) => Ok(Value::from(at)),
        None if method.ends_with("index") => Err(invalid(format!("{method}: not found"))),
        None => Ok(Value::from(-1)),
    }
}

fn count(text: &str, arguments: &Arguments) -> Result<Value, Error> {
    let wanted = arguments.text(0)?;
    let part = window(text, arguments)?;
    Ok(Value::from(
        part.map_or(0, |(part, _)| part.matches(wanted).count()),
    ))
}

pub fn replace(text: &str, arguments: &Arguments) -> Result<Value, Error> {
    let (old, new) = (arguments.text(0)?, arguments.text(1)?);
    let max = usize::try_from(arguments.integer(2, -1)?).unwrap_or(usize::MAX);
    let n = text.matches(old).take(max).count();
    if n.saturating_mul(new.len()) > MAX_TEXT_BYTES {
        return Err(invalid("replace: the result is too long"));
    }
    Ok(Value::from(text.replacen(old, new, max)))
}

fn join(between: &str, items: &Value) -> Result<Value, Error> {
    let mut joined = String::new();
    for (i, item) in items.try_iter()?.checked().enumerate() {
        let item = item?;
        let text = item.as_str().ok_or_else(|| {
            invalid(format!(
                "join: item {i} is of the kind {}, not a string",
                item.kind()
            ))
        })?;
        if joined.len() > MAX_TEXT_BYTES {
            return Err(invalid("join: the result is too long"));
        }
        if i > 0 {
            joined.push_str(between);
        }
        joined.push_str(text);
    }
    Ok(Value::from(joined))
}

/// Converts each letter after a non-letter to upper case, and all other letters to lower case.
fn title(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut after_letter = false;
    for c in text.chars() {
        if after_letter {
            result.extend(c.to_lowercase());
        } else {
            result.extend(c.to_uppercase());
        }
        after_letter = c.is_lowercase() || c.is_uppercase();
    }
    result
}

fn swap_case(c: char) -> Vec<char> {
    if c.is_uppercase() {
        c.to_lowercase().collect()
    } else {
        c.to_uppercase().collect()
    }
}

fn justify(text: &str, method: &str, arguments: &Arguments) -> Result<Value, Error> {
    let width = arguments.count(0, MAX_PARTS)?;
    let fill = arguments.optional_text(1)?.unwrap_or(" ");
    if fill.chars().count() != 1 {
        return Err(invalid(format!("{method} fills with one character")));
    }
    let n = width.saturating_sub(text.chars().count());
    let n_left = match method {
        "ljust" => 0,
        "rjust" => n,
        // If the width is odd, Python puts the odd character to the left.
        _ => n / 2 + (n & width & 1),
    };
    Ok(Value::from(
        fill.repeat(n_left) + text + &fill.repeat(n - n_left),
    ))
}

fn zero_fill(text: &str, arguments: &Arguments) -> Result<Value, Error> {
    let n = arguments
        .count(0, MAX_PARTS)?
        .saturating_sub(text.chars().count());
    let n_sign = usize::from(text.starts_with(['+', '-']));
    let (sign, digits) = text.split_at(n_sign);
    Ok(Value::from(format!("{sign}{}{digits}", "0".repeat(n))))
}
