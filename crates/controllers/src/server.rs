//! The controllers that are the API server's own.

use crate::all::Named;
use crate::{account_tokens, api_service, flow_schema};

/// Those that say what the server itself is doing. They run whatever controllers are asked for.
pub fn of_server() -> [Named; 4] {
    [
        Named::new(account_tokens::tracking::NAME, account_tokens::tracking::run),
        Named::new(api_service::NAME, api_service::run),
        Named::new(api_service::registration::NAME, api_service::registration::run),
        Named::new(flow_schema::NAME, |context, _, stop| {
            flow_schema::run(context, stop)
        }),
    ]
}
