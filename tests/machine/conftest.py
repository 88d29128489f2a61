from tests.opened import clock as clock
from tests.opened import database as database
from tests.opened import postgres as postgres
