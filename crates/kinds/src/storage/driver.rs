//! Drivers and their parameters, which classes of volumes name.

use crate::at::At;
use crate::shared::name;

const PARAMETERS: usize = 512;
const PARAMETERS_BYTES: usize = 256 * 1024;

/// Reports the name of a driver that is none.
pub(super) fn validate(driver: &At<'_>) {
    if !driver.is_empty() {
        let lower = driver.str().to_lowercase();
        name::report(&lower, name::qualified(&lower), driver.errors());
    }
}

/// Reports parameters that are too many or without a name.
pub(super) fn validate_parameters(parameters: &At<'_>) {
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
