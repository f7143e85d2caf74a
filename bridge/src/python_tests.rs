//! Tests (`x is NAME`) that differ between Jinja2 and minijinja.

use minijinja::value::ValueKind;
use minijinja::Value;

/// What Python can iterate over: undefined values are empty, None is refused.
pub fn is_iterable(value: &Value) -> bool {
    use ValueKind::{Bytes, Iterable, Map, Seq, String, Undefined};
    matches!(
        value.kind(),
        Undefined | String | Bytes | Seq | Map | Iterable
    )
}

/// What has a length and an index: strings and mappings too.
pub fn is_sequence(value: &Value) -> bool {
    is_iterable(value)
}
