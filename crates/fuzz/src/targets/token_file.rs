//! Token files: any text is read, or rejected with a line.

use setpoint_auth::authenticate::TokenFile;

use super::Target;
use crate::corpus;

pub(super) const TARGET: Target = Target {
    name: "token-file",
    cost: 1,
    seeds: || corpus::files("token-file"),
    run,
};

fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Err(error) = TokenFile::parse(text, Vec::new()) {
        assert!(error.to_string().contains("line"), "{error}");
    }
}
