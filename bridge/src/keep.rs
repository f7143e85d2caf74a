//! Checks values that a template stores in a namespace. A namespace is the only value that changes.
//! Only there could a value contain itself or become deeper without limit. Such a value could not
//! be printed, compared or freed.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use crate::session;

const MAX_DEPTH: usize = 160;

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// Returns the value itself. A lazy sequence, such as a slice, becomes a list, because such
/// sequences keep a chain to their origin.
pub fn keep(value: &Value) -> Result<Value, Error> {
    check(value, MAX_DEPTH)?;
    if value.kind() == ValueKind::Iterable {
        return Ok(Value::from(
            value
                .try_iter()?
                .checked()
                .collect::<Result<Vec<Value>, Error>>()?,
        ));
    }
    Ok(value.clone())
}

fn check(value: &Value, depth: usize) -> Result<(), Error> {
    if let Some(reason) = session::overrun() {
        return Err(invalid(reason));
    }
    let Some(deeper) = depth.checked_sub(1) else {
        return Err(invalid("a namespace cannot hold a value nested this deep"));
    };
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()?.checked() {
                check(&item?, deeper)?;
            }
        }
        ValueKind::Map => {
            if is_namespace(value) {
                return Err(invalid("a namespace cannot hold a namespace"));
            }
            for key in value.try_iter()?.checked() {
                check(&value.get_item(&key?)?, deeper)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn is_namespace(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|object| object.type_name().ends_with("::Namespace"))
}
