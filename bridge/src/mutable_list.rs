//! Lists that a template changes in place (`.append`, `.extend`, `.insert`, `.pop`). minijinja's
//! values cannot change. If a template uses these methods, its list literals become such lists
//! (source.rs). The lists of the input do not change. A list stores copies of its items, so no list
//! can contain itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use crate::python_args::Arguments;

/// Max depth of a list's items.
const MAX_DEPTH: usize = 64;

#[derive(Debug)]
pub struct MutableList(Mutex<Vec<Value>>);

fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// The function that source.rs puts around list literals.
pub fn make(list: &Value) -> Result<Value, Error> {
    Ok(Value::from_object(MutableList(Mutex::new(items_of(
        list, MAX_DEPTH,
    )?))))
}

fn items_of(list: &Value, depth: usize) -> Result<Vec<Value>, Error> {
    list.try_iter()?
        .checked()
        .map(|item| copy(&item?, depth))
        .collect()
}

fn copy(value: &Value, depth: usize) -> Result<Value, Error> {
    let Some(deeper) = depth.checked_sub(1) else {
        return Err(invalid("a list is nested too deep"));
    };
    match value.kind() {
        ValueKind::Seq if value.is_tuple() => Ok(value.clone()),
        ValueKind::Seq | ValueKind::Iterable => Ok(Value::from(items_of(value, deeper)?)),
        ValueKind::Map => {
            let mut pairs = Vec::new();
            for key in value.try_iter()?.checked() {
                let key = key?;
                let item = copy(&value.get_item(&key)?, deeper)?;
                pairs.push((key, item));
            }
            Ok(Value::from_pairs(pairs))
        }
        ValueKind::Plain | ValueKind::Invalid => Err(invalid("a list cannot hold this value")),
        _ => Ok(value.clone()),
    }
}

impl MutableList {
    fn items(&self) -> MutexGuard<'_, Vec<Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the position of Python's index `i` among `n` places, or None.
    fn place(i: i64, n: usize) -> Option<usize> {
        let from_start = if i < 0 {
            i.checked_add(i64::try_from(n).ok()?)?
        } else {
            i
        };
        usize::try_from(from_start).ok().filter(|at| *at < n)
    }

    fn pop(&self, i: i64) -> Result<Value, Error> {
        let mut items = self.items();
        match MutableList::place(i, items.len()) {
            Some(at) => Ok(items.remove(at)),
            None => Err(invalid("pop: the index is out of range")),
        }
    }
}

impl Object for MutableList {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.items().get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items().clone())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items().len())
    }

    fn call_method(
        self: &Arc<Self>,
        _state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        match method {
            "append" => {
                let item = copy(
                    Arguments::bind(method, args, &["item"])?.required(0)?,
                    MAX_DEPTH,
                )?;
                self.items().push(item);
            }
            "extend" => {
                let more = items_of(
                    Arguments::bind(method, args, &["items"])?.required(0)?,
                    MAX_DEPTH,
                )?;
                self.items().extend(more);
            }
            "insert" => {
                let arguments = Arguments::bind(method, args, &["index", "item"])?;
                let item = copy(arguments.required(1)?, MAX_DEPTH)?;
                let index = arguments.integer(0, 0)?;
                let mut items = self.items();
                let n = items.len();
                let at = if index < 0 { 0 } else { n };
                items.insert(MutableList::place(index, n).unwrap_or(at), item);
            }
            "pop" => return self.pop(Arguments::bind(method, args, &["index"])?.integer(0, -1)?),
            _ => return Err(Error::from(ErrorKind::UnknownMethod)),
        }
        Ok(Value::from(()))
    }
}
