//! Requests that change the running server: only of administrators, and not of pages of other origins.
//!
//! A browser sends its stored credentials with requests of any page. So a request from a page of another
//! origin is refused, by the fields in which the browser names the origin. In addition DELETE and PUT need a
//! preflight, whose response does not allow them (CORS).

use http::{StatusCode, header};
use wirepath_auth::Area;
use wirepath_http::{AssetPath, Request, Response};
use wirepath_net::Addresses;
use wirepath_net::auth::AccessControl;

/// Admits administrators, unless the request comes from a page of another origin.
pub(super) async fn admit(
    access: Option<&AccessControl>,
    path: &AssetPath,
    request: &Request,
    client: (Addresses, &mut Option<String>),
) -> Result<(), Response> {
    let forbidden =
        |why| Response::error(StatusCode::FORBIDDEN, why).header(header::CACHE_CONTROL, "no-store");
    if request.is_cross_origin {
        return Err(forbidden("the server is not controlled by pages of other origins"));
    }
    match access {
        Some(access) if access.has_administrators() => {
            access.check_http(Area::Administration, path, request, client).await
        }
        _ => Err(forbidden(
            "this server has no administrators: start it with --users FILE and --admin-users NAME",
        )),
    }
}
