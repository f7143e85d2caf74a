//! Parses the variables of a rendering from a JSON object. serde_json rejects more than 127 levels.

use minijinja::Value;

use crate::session::{Failure, Status};

/// This member sets the clock and is not a variable.
const CLOCK: &str = "strftime_now";

pub struct Input {
    pub variables: Value,
    pub clock: Option<String>,
}

pub fn parse(json: &[u8]) -> Result<Input, Failure> {
    let invalid = |what: String| Failure::new(Status::Invalid, format!("the input {what}"));
    let variables: Value =
        serde_json::from_slice(json).map_err(|e| invalid(format!("is not JSON: {e}")))?;
    if variables.kind() != minijinja::value::ValueKind::Map {
        return Err(invalid("is not a JSON object".into()));
    }
    let clock = variables.get_attr(CLOCK).unwrap_or_default();
    if clock.is_undefined() {
        return Ok(Input {
            variables,
            clock: None,
        });
    }
    let clock = clock
        .as_str()
        .ok_or_else(|| invalid(format!("has a {CLOCK} that is not a string")))?;
    let clock = Some(clock.to_owned());
    Ok(Input {
        variables: without(&variables, CLOCK),
        clock,
    })
}

fn without(variables: &Value, name: &str) -> Value {
    let keys = variables.try_iter().into_iter().flatten();
    Value::from_pairs(keys.filter(|key| key.as_str() != Some(name)).map(|key| {
        let value = variables.get_item(&key).unwrap_or_default();
        (key, value)
    }))
}
