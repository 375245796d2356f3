//! Serve over HTTPS.
#[derive(Debug)]
pub struct Http;
