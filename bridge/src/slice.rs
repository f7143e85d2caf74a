//! Slices with a step, as in Python.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use crate::python_args::Arguments;

/// The method that source.rs calls for `value[start:stop:step]`.
pub fn slice(value: &Value, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("a slice", args, &["start", "stop", "step"])?;
    let step = arguments.integer(2, 1)?;
    if step == 0 {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "the step of a slice is 0",
        ));
    }
    if value.kind() == ValueKind::String {
        let characters: Vec<char> = value.as_str().unwrap_or_default().chars().collect();
        let chosen = places(&arguments, characters.len(), step)?.map(|i| characters[i]);
        return Ok(Value::from(chosen.collect::<String>()));
    }
    let items = value
        .try_iter()?
        .checked()
        .collect::<Result<Vec<Value>, Error>>()?;
    let chosen = places(&arguments, items.len(), step)?.map(|i| items[i].clone());
    Ok(Value::from(chosen.collect::<Vec<Value>>()))
}

/// Returns the indices of a slice of `n` items. Negative bounds count from the end. Bounds are
/// limited to the items.
fn places(
    arguments: &Arguments,
    n: usize,
    step: i64,
) -> Result<impl Iterator<Item = usize>, Error> {
    let n = i64::try_from(n).unwrap_or(i64::MAX);
    let (first, last) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let bound = |i: usize, default: i64| -> Result<i64, Error> {
        if arguments.get(i).is_none_or(Value::is_none) {
            return Ok(default);
        }
        let given = arguments.integer(i, 0)?;
        Ok((if given < 0 {
            given.saturating_add(n)
        } else {
            given
        })
        .clamp(first, last))
    };
    let start = bound(0, if step > 0 { first } else { last })?;
    let stop = bound(1, if step > 0 { last } else { first })?;
    let next = move |i: &i64| i.checked_add(step);
    let is_inside = move |i: &i64| if step > 0 { *i < stop } else { *i > stop };
    Ok(std::iter::successors(Some(start), next)
        .take_while(is_inside)
        .map(|i| i as usize))
}
