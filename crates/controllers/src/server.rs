//! The controllers that are the API server's own.

use crate::all::Named;
use crate::{api_service, flow_schema};

/// Those that say what the server itself is doing. They run whatever controllers are asked for.
pub fn of_server() -> [Named; 2] {
    [
        Named::new(api_service::NAME, |context, _, stop| {
            api_service::run(context, stop)
        }),
        Named::new(flow_schema::NAME, |context, _, stop| {
            flow_schema::run(context, stop)
        }),
    ]
}
