"""Tools of a small parcel counter; written for the tests."""


def tools(database):
    parcels = database["parcels"]

    def find_parcel(number: str):
        """Return a parcel by its number."""
        if number not in parcels:
            raise ValueError(f"no parcel {number}")
        return parcels[number]

    def redirect(number: str, city: str):
        """Send a parcel that is still in the depot to another city."""
        if parcels[number]["state"] != "depot":
            raise ValueError("the parcel has left the depot")
        parcels[number]["city"] = city
        return "redirected"

    def scan(number: str):
        """Scan a parcel; the scanner is broken."""
        raise OSError(f"the scanner is on fire at {number}")

    return {"find_parcel": find_parcel, "redirect": redirect, "scan": scan}
