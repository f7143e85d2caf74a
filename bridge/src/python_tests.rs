//! Tests (`x is NAME`) that differ between Jinja2 and minijinja.

use minijinja::value::ValueKind;
use minijinja::Value;

/// Returns whether Python can iterate over the value. An undefined value is empty; None is not
/// iterable.
pub fn is_iterable(value: &Value) -> bool {
    use ValueKind::{Bytes, Iterable, Map, Seq, String, Undefined};
    matches!(
        value.kind(),
        Undefined | String | Bytes | Seq | Map | Iterable
    )
}

/// Returns whether the value has a length and an index. Strings and mappings count, too.
pub fn is_sequence(value: &Value) -> bool {
    is_iterable(value)
}
