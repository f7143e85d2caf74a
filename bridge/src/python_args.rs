//! Binds arguments like Python: by position or by name.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

pub struct Arguments<'a> {
    function: &'a str,
    names: &'a [&'a str],
    values: Vec<Option<Value>>,
}

impl<'a> Arguments<'a> {
    /// Binds `given` to the parameters `names`. All parameters are optional.
    pub fn bind(
        function: &'a str,
        given: &[Value],
        names: &'a [&'a str],
    ) -> Result<Arguments<'a>, Error> {
        let mut values: Vec<Option<Value>> = vec![None; names.len()];
        let mut n_positional = 0;
        for value in given {
            if value.is_kwargs() {
                let named = Kwargs::try_from(value.clone())?;
                for name in named.args() {
                    let at = names.iter().position(|n| *n == name).ok_or_else(|| {
                        let message = format!("{function} has no argument named {name}");
                        Error::new(ErrorKind::TooManyArguments, message)
                    })?;
                    values[at] = Some(named.get(name)?);
                }
            } else if n_positional < names.len() {
                values[n_positional] = Some(value.clone());
                n_positional += 1;
            } else {
                let message = format!("{function} takes at most {} arguments", names.len());
                return Err(Error::new(ErrorKind::TooManyArguments, message));
            }
        }
        Ok(Arguments {
            function,
            names,
            values,
        })
    }

    pub fn get(&self, i: usize) -> Option<&Value> {
        self.values[i].as_ref()
    }

    pub fn is_true(&self, i: usize) -> bool {
        self.get(i).is_some_and(Value::is_true)
    }

    fn wrong(&self, i: usize, wanted: &str, value: &Value) -> Error {
        let (function, name) = (self.function, self.names[i]);
        let message = format!(
            "the argument {name} of {function} must be {wanted}, not {}",
            value.kind()
        );
        Error::new(ErrorKind::InvalidOperation, message)
    }

    pub fn required(&self, i: usize) -> Result<&Value, Error> {
        self.get(i).ok_or_else(|| {
            let message = format!("{} needs the argument {}", self.function, self.names[i]);
            Error::new(ErrorKind::MissingArgument, message)
        })
    }

    pub fn text(&self, i: usize) -> Result<&str, Error> {
        let value = self.required(i)?;
        value
            .as_str()
            .ok_or_else(|| self.wrong(i, "a string", value))
    }

    /// Returns None if the argument is missing or None.
    pub fn optional_text(&self, i: usize) -> Result<Option<&str>, Error> {
        match self.get(i) {
            None => Ok(None),
            Some(value) if value.is_none() => Ok(None),
            Some(_) => self.text(i).map(Some),
        }
    }

    /// Returns `default` if the argument is missing or None.
    pub fn integer(&self, i: usize, default: i64) -> Result<i64, Error> {
        match self.get(i) {
            None => Ok(default),
            Some(value) if value.is_none() => Ok(default),
            Some(value) if value.kind() == ValueKind::Bool => Ok(i64::from(value.is_true())),
            Some(value) => value
                .as_i64()
                .ok_or_else(|| self.wrong(i, "an integer", value)),
        }
    }

    /// Returns an integer as a length. A negative number becomes 0; more than `max` is an error.
    pub fn count(&self, i: usize, max: usize) -> Result<usize, Error> {
        let count = usize::try_from(self.integer(i, 0)?).unwrap_or(0);
        if count <= max {
            return Ok(count);
        }
        let value = self.required(i)?;
        Err(self.wrong(i, &format!("at most {max}"), value))
    }
}
