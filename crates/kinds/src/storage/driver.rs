//! Driver names and parameters of storage classes.

use setpoint_strategy::{FieldRef, name};

const PARAMETERS: usize = 512;
const PARAMETERS_BYTES: usize = 256 * 1024;

/// Reports an invalid driver name.
pub(super) fn validate(driver: &FieldRef<'_>) {
    if !driver.is_empty() {
        let lower = driver.str().to_lowercase();
        name::report(&lower, name::check_qualified_name(&lower), driver.errors());
    }
}

/// Reports parameters that are too large or have no name.
pub(super) fn validate_parameters(parameters: &FieldRef<'_>) {
    if parameters.len() > PARAMETERS {
        return parameters.too_long(PARAMETERS);
    }
    let mut bytes = 0;
    for (key, value) in parameters.entries() {
        if key.is_empty() {
            parameters.invalid_as(key, "field can not be empty.");
        }
        bytes += key.len() + value.str().len();
    }
    if bytes > PARAMETERS_BYTES {
        parameters.too_long(PARAMETERS_BYTES);
    }
}
