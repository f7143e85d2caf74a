//! Prepares a JSON Schema for llguidance. Rejects unsupported keywords with their name and place.
//! Removes keywords without effect. Closes objects that list their properties, where this only
//! narrows the answers.

use serde_json::{Map, Value};

use crate::session::{Failure, Status};

/// Assertions of JSON Schema that llguidance does not support. The optional value makes the
/// assertion ineffective; so does the schema {} if that value is true.
const UNSUPPORTED: [(&str, Option<Value>); 16] = [
    ("$dynamicRef", None),
    ("$recursiveRef", None),
    ("contains", None),
    ("dependencies", None),
    ("dependentRequired", None),
    ("dependentSchemas", None),
    ("else", None),
    ("if", None),
    ("maxContains", None),
    ("minContains", None),
    ("not", Some(Value::Bool(false))),
    ("propertyNames", Some(Value::Bool(true))),
    ("then", None),
    ("unevaluatedItems", Some(Value::Bool(true))),
    ("unevaluatedProperties", Some(Value::Bool(true))),
    ("uniqueItems", Some(Value::Bool(false))),
];

/// Formats of JSON Schema that llguidance does not support. Names that JSON Schema does not define
/// are annotations.
const UNSUPPORTED_FORMATS: [&str; 9] = [
    "idn-email",
    "idn-hostname",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "uri-reference",
    "uri-template",
];
/// Formats that llguidance supports.
const FORMATS: [&str; 10] = [
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "time",
    "uri",
    "uuid",
];

/// Keywords that contain other schemas: one schema, a list of schemas, or an object of schemas.
const ONE: [&str; 3] = ["additionalItems", "additionalProperties", "items"];
const LISTS: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
const OBJECTS: [&str; 4] = ["$defs", "definitions", "patternProperties", "properties"];

/// White space between the parts of a value: enough for indented JSON, but limited.
const WHITE_SPACE: &str = r"[\x20]{1,2}|\n[\x20\x09]{0,40}";

/// Returns the schema of a text, ready for llguidance.
pub fn prepared(text: &str) -> Result<Value, Failure> {
    let mut schema: Value = serde_json::from_str(text)
        .map_err(|e| Failure::new(Status::Invalid, format!("the schema is not JSON: {e}")))?;
    if schema.is_boolean() {
        schema = if schema == Value::Bool(true) {
            Value::Object(Map::new())
        } else {
            schema
        };
    }
    if !schema.is_object() {
        return Err(Failure::new(
            Status::Invalid,
            "the schema must be a JSON object or true",
        ));
    }
    let mut survey = Survey { may_close: true };
    survey.check(&mut schema, "#", true)?;
    if survey.may_close {
        close(&mut schema);
    }
    if let Value::Object(members) = &mut schema {
        let options = serde_json::json!({ "whitespace_pattern": WHITE_SPACE });
        members.insert("x-guidance".into(), options);
    }
    Ok(schema)
}

/// Returns the schema of any object.
pub fn any_object() -> Value {
    serde_json::json!({
        "type": "object",
        "x-guidance": { "whitespace_pattern": WHITE_SPACE },
    })
}

struct Survey {
    /// No keyword applies a second schema to the same value. With such a keyword, closing an object
    /// could exclude all values, or make schemas seem disjoint that are not.
    may_close: bool,
}

fn refuse(what: &str, place: &str) -> Failure {
    Failure::new(
        Status::Unsupported,
        format!("JSON Schema {what} at {place} is not supported"),
    )
}

/// Returns whether a schema accepts all values that the keyword applies it to. All names of
/// properties are strings, which some libraries say explicitly (Zod's records).
fn accepts_all(keyword: &str, schema: &Value) -> bool {
    let Value::Object(members) = schema else {
        return schema == &Value::Bool(true);
    };
    members.iter().all(|(key, value)| {
        keyword == "propertyNames" && key == "type" && value == &Value::String("string".into())
    })
}

/// Returns a JSON pointer.
fn below(place: &str, key: &str) -> String {
    format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"))
}

impl Survey {
    fn check(&mut self, schema: &mut Value, place: &str, is_root: bool) -> Result<(), Failure> {
        let Value::Object(members) = schema else {
            return Ok(()); // a boolean, or an invalid schema that llguidance reports
        };
        members.retain(|key, _| key != "x-guidance");
        for (keyword, nothing) in &UNSUPPORTED {
            let Some(value) = members.get(*keyword) else {
                continue;
            };
            let is_any = nothing == &Some(Value::Bool(true)) && accepts_all(keyword, value);
            if nothing.as_ref() != Some(value) && !is_any {
                return Err(refuse(&format!("keyword \"{keyword}\""), place));
            }
            members.shift_remove(*keyword);
        }
        round_counts(members);
        check_format(members, place)?;
        check_references(members, place, is_root)?;
        self.note_overlap(members);
        for (key, value) in members.iter_mut() {
            let key = key.as_str();
            let place = below(place, key);
            match value {
                Value::Array(list) if LISTS.contains(&key) => {
                    for (i, item) in list.iter_mut().enumerate() {
                        self.check(item, &format!("{place}/{i}"), false)?;
                    }
                }
                Value::Object(_) if ONE.contains(&key) => self.check(value, &place, false)?,
                Value::Object(map) if OBJECTS.contains(&key) => {
                    for (name, item) in map.iter_mut() {
                        self.check(item, &below(&place, name), false)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn note_overlap(&mut self, members: &Map<String, Value>) {
        const ASIDE: [&str; 9] = [
            "$anchor",
            "$comment",
            "$defs",
            "$id",
            "$schema",
            "default",
            "definitions",
            "description",
            "title",
        ];
        let n_asserting = members
            .keys()
            .filter(|key| !ASIDE.contains(&key.as_str()))
            .count();
        let has = |key| members.contains_key(key);
        let shares = has("allOf") || has("oneOf");
        if shares || ((has("anyOf") || has("$ref")) && n_asserting > 1) {
            self.may_close = false;
        }
    }
}

/// Converts counts such as 2.0 to integers.
fn round_counts(members: &mut Map<String, Value>) {
    const COUNTS: [&str; 6] = [
        "maxItems",
        "maxLength",
        "maxProperties",
        "minItems",
        "minLength",
        "minProperties",
    ];
    for key in COUNTS {
        let Some(value) = members.get_mut(key) else {
            continue;
        };
        let number = value.as_f64().filter(|_| !value.is_u64());
        if let Some(count) = number.filter(|n| n.fract() == 0.0 && (0.0..1e15).contains(n)) {
            *value = Value::from(count as u64);
        }
    }
}

fn check_format(members: &mut Map<String, Value>, place: &str) -> Result<(), Failure> {
    let Some(Value::String(format)) = members.get("format") else {
        return Ok(());
    };
    if UNSUPPORTED_FORMATS.contains(&format.as_str()) {
        return Err(refuse(&format!("format \"{format}\""), place));
    }
    if !FORMATS.contains(&format.as_str()) {
        members.shift_remove("format");
    }
    Ok(())
}

fn check_references(
    members: &Map<String, Value>,
    place: &str,
    is_root: bool,
) -> Result<(), Failure> {
    if let Some(Value::String(target)) = members.get("$ref") {
        if target != "#" && !target.starts_with("#/") {
            return Err(refuse(&format!("reference \"{target}\""), place));
        }
    }
    // References within such a schema would be relative to it.
    let has_references = |members: &Map<String, Value>| {
        serde_json::to_string(members).is_ok_and(|text| text.contains("\"$ref\":"))
    };
    if !is_root && members.contains_key("$id") && has_references(members) {
        return Err(refuse("keyword \"$id\" around a reference", place));
    }
    Ok(())
}

/// Forbids other properties in each object that lists its properties, unless the object has a
/// keyword about others. Otherwise some models invent properties without end.
fn close(schema: &mut Value) {
    let Value::Object(members) = schema else {
        return;
    };
    for (key, value) in members.iter_mut() {
        let key = key.as_str();
        match value {
            Value::Array(list) if LISTS.contains(&key) => list.iter_mut().for_each(close),
            Value::Object(_) if ONE.contains(&key) => close(value),
            Value::Object(map) if OBJECTS.contains(&key) => map.values_mut().for_each(close),
            _ => {}
        }
    }
    if names_all(members) {
        members.insert("additionalProperties".into(), Value::Bool(false));
    }
}

fn names_all(members: &Map<String, Value>) -> bool {
    let Some(Value::Object(properties)) = members.get("properties") else {
        return false;
    };
    let required_are_there = match members.get("required") {
        None => true,
        Some(Value::Array(names)) => names.iter().all(|name| {
            name.as_str()
                .is_some_and(|name| properties.contains_key(name))
        }),
        Some(_) => false,
    };
    let speaks_of_others = ["additionalProperties", "patternProperties", "minProperties"]
        .iter()
        .any(|key| members.contains_key(*key));
    !properties.is_empty() && required_are_there && !speaks_of_others
}
